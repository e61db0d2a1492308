#pragma once

// What a context's memory really is after it was made: types by name, bytes as allocated, what was decided.

#include "llama.h"

#include <cstddef>
#include <cstdint>
#include <string>

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

    bool     flash_attn = false; // as decided, not as asked
    bool     kv_unified = false;
    uint32_t n_ctx      = 0;     // cells over all sequences
    uint32_t n_ctx_seq  = 0;     // tokens one sequence may hold
    uint32_t n_ubatch   = 0;
};

// not thread-safe: call from the thread that owns the context
LLAMA_API kvarn_kv_facts kvarn_kv_facts_get(const llama_context * ctx);
