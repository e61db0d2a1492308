#pragma once

// What a context's memory really is after it was made: types by name, bytes as allocated, what was decided.

#include "llama.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

struct kvarn_kv_facts {
    std::string type_k; // empty when the context has no attention cache of a kind known here
    std::string type_v;
    int32_t     k_block_values = 0; // tells the two block sizes of a rotated type apart
    int32_t     v_block_values = 0;
    double      k_bits         = 0; // stored bits of a value, scales included
    double      v_bits         = 0;

    size_t k_bytes         = 0; // sum over layers of the tensors' own sizes
    size_t v_bytes         = 0;
    size_t recurrent_bytes = 0;

    int32_t  kv_pad_asked = 0;   // as llama_context_params::kv_pad
    int32_t  kv_pad     = -1;    // as it is in effect: no more than the cells there are; -1 without an attention cache known here
    bool     flash_attn = false; // as decided, not as asked
    bool     kv_unified = false;
    uint32_t n_ctx      = 0;     // cells over all sequences
    uint32_t n_ctx_seq  = 0;     // tokens one sequence may hold
    uint32_t n_ubatch   = 0;
};

// not thread-safe: call from the thread that owns the context
LLAMA_API kvarn_kv_facts kvarn_kv_facts_get(const llama_context * ctx);

// One of a context's memories. A model with a sliding window has two attention caches, a hybrid one a recurrent state too.
struct kvarn_kv_cache {
    const char * role;    // "full", "window" or "recurrent"
    std::string  type_k;  // empty for the recurrent state
    std::string  type_v;
    size_t       k_bytes; // as allocated; the recurrent state's bytes are all here
    size_t       v_bytes;
    uint32_t     n_cells; // over all streams
};

LLAMA_API std::vector<kvarn_kv_cache> kvarn_kv_caches_get(const llama_context * ctx);

// cells in use, in the order of kvarn_kv_caches_get(); returns how many memories there are, at most n_max are written.
// Constant time and no allocation. Not thread-safe: call from the thread that owns the context.
LLAMA_API size_t kvarn_kv_cells_used(const llama_context * ctx, uint32_t * n_used, size_t n_max);
