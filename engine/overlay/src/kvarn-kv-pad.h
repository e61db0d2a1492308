#pragma once

// How many cells of a KV cache a graph's attention spans.
//
// A graph is built for n_kv cells and can be used again while n_kv stays the same, so the number of cells in use is
// rounded up. Upstream rounds to 256: one build (and on CUDA one eager run and one capture) for every 256 tokens,
// however long the text. Here the step may grow with the text, P(n) = clamp(pow2floor(n/8), 256, 16384): eight builds
// for each doubling of the text, 64 instead of 1,024 from 0 to 262,144 cells. The cells in excess are masked; they are
// at most n/8, or fewer than 256.
//
// After a rollback (a rejected draft) the larger n_kv is held, or a step at a boundary would build twice: the excess is
// then at most an eighth of n_kv, or 320 cells. A cache that begins anew holds nothing, so the answer to a request
// does not depend on the requests before it.

#include "llama.h"

#include <algorithm>
#include <cstdint>
#include <vector>

// values of llama_context_params::kv_pad; any other value is a fixed step in cells, a multiple of 256
enum : uint16_t {
    KVARN_KV_PAD_UPSTREAM = 0,     // 256, and nothing is held
    KVARN_KV_PAD_AUTO     = 1,     // P(n)
    KVARN_KV_PAD_MAX      = 32768, // largest fixed step
};

constexpr uint32_t KVARN_KV_PAD_STEP     = 256;   // FATTN_KQ_STRIDE of the CUDA kernels, and upstream's own step
constexpr uint32_t KVARN_KV_PAD_AUTO_MAX = 16384;
constexpr uint32_t KVARN_KV_PAD_ROLLBACK = 64;    // cells, more than any draft is long

inline bool kvarn_kv_pad_is_valid(uint32_t pad) {
    return pad <= KVARN_KV_PAD_AUTO || (pad % KVARN_KV_PAD_STEP == 0 && pad <= KVARN_KV_PAD_MAX);
}

// the step for n cells in use
inline uint32_t kvarn_kv_pad_step(uint16_t pad, uint32_t n) {
    if (pad == KVARN_KV_PAD_AUTO) {
        uint32_t step = KVARN_KV_PAD_STEP;
        while (step < KVARN_KV_PAD_AUTO_MAX && step*2 <= n/8) {
            step *= 2;
        }
        return step;
    }
    return std::max<uint32_t>(pad, KVARN_KV_PAD_STEP);
}

// n cells in use, rounded up; at least one step. Never falls when n grows.
inline uint32_t kvarn_kv_pad_up(uint16_t pad, uint32_t n) {
    const uint32_t step = kvarn_kv_pad_step(pad, n);
    return std::max(step, (n + step - 1)/step*step);
}

// the excess over n up to which n_kv = held is kept when n falls
inline uint32_t kvarn_kv_pad_slack(uint16_t pad, uint32_t held) {
    const uint32_t step = pad == KVARN_KV_PAD_AUTO ? KVARN_KV_PAD_STEP : kvarn_kv_pad_step(pad, held);
    return std::max(pad == KVARN_KV_PAD_AUTO ? held/8 : 0, step + KVARN_KV_PAD_ROLLBACK);
}

// of one cache; used on the thread that owns the context
struct kvarn_kv_pad {
    uint16_t pad = KVARN_KV_PAD_UPSTREAM;

    bool is_upstream() const {
        return pad == KVARN_KV_PAD_UPSTREAM || pad == KVARN_KV_PAD_STEP;
    }

    // n_kv for one stream
    //   n:     cells up to the last one in use, those of the new tokens included
    //   n_new: new tokens
    //   size:  cells of the stream, the upper bound
    LLAMA_API uint32_t n_kv(uint32_t stream, uint32_t n, uint32_t n_new, uint32_t size);

private:
    std::vector<uint32_t> held; // last n_kv of each stream
};

struct llama_memory_i;

// sets the pad of every attention cache of kinds known here (plain, iSWA, and both within a hybrid); others stay upstream's
// throws std::runtime_error when pad is no valid value
void kvarn_kv_pad_set(llama_memory_i * mem, uint16_t pad);
