#include "kvarn-kv-pad.h"

#include "llama-impl.h"
#include "llama-kv-cache.h"
#include "llama-kv-cache-iswa.h"
#include "llama-memory-hybrid.h"
#include "llama-memory-hybrid-idx.h"
#include "llama-memory-hybrid-iswa.h"

#include <cstddef>
#include <stdexcept>

// the field lies where upstream's struct has two unused bytes, so bindings made for upstream's layout still fit
static_assert(offsetof(llama_context_params, samplers) == offsetof(llama_context_params, embeddings) + 8,
        "kv_pad must not move the fields after it");

uint32_t kvarn_kv_pad::n_kv(uint32_t stream, uint32_t n, uint32_t n_new, uint32_t size) {
    if (stream >= held.size()) {
        held.resize(stream + 1, 0);
    }

    const bool is_new = n <= n_new;

    uint32_t res = std::min(size, kvarn_kv_pad_up(pad, n));
    if (!is_new && res < held[stream] && held[stream] - n <= kvarn_kv_pad_slack(pad, held[stream])) {
        res = held[stream];
    }

    held[stream] = res;
    return res;
}

static void set_all(llama_memory_i * mem, uint16_t pad) {
    if (auto * kv = dynamic_cast<llama_kv_cache *>(mem)) {
        kv->kv_pad.pad = pad;
    } else if (auto * iswa = dynamic_cast<llama_kv_cache_iswa *>(mem)) {
        set_all(iswa->get_base(), pad);
        set_all(iswa->get_swa(), pad);
    } else if (dynamic_cast<llama_memory_hybrid_idx *>(mem)) {
        // two caches that must span the same cells
    } else if (auto * hybrid = dynamic_cast<llama_memory_hybrid *>(mem)) {
        set_all(hybrid->get_mem_attn(), pad);
    } else if (auto * hybrid_iswa = dynamic_cast<llama_memory_hybrid_iswa *>(mem)) {
        set_all(hybrid_iswa->get_mem_attn(), pad);
    }
}

void kvarn_kv_pad_set(llama_memory_i * mem, uint16_t pad) {
    if (!kvarn_kv_pad_is_valid(pad)) {
        throw std::runtime_error(format("kv_pad = %u is neither 0, 1 (auto) nor a multiple of %u up to %u",
                pad, KVARN_KV_PAD_STEP, (unsigned) KVARN_KV_PAD_MAX));
    }
    set_all(mem, pad);
}
