#pragma once

// The types of kvarn-kv-types.h on the CPU: dot products with Q8_0 rows, and writing rows byte for byte as that file says.

#include "ggml-backend.h"
#include "kvarn-kv-types.h"

#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

// ggml_from_float_t and ggml_vec_dot_t; the second row of a product is of block_q8_0
#define KVARN_VEC_DOT(name) \
    void kvarn_vec_dot_##name##_q8_0(int n, float * GGML_RESTRICT s, size_t bs, const void * GGML_RESTRICT vx, size_t bx, \
                                     const void * GGML_RESTRICT vy, size_t by, int nrc)
#define KVARN_KV_CPU(name) \
    void kvarn_quantize_row_##name(const float * GGML_RESTRICT x, void * GGML_RESTRICT y, int64_t k); \
    KVARN_VEC_DOT(name);
KVARN_KV_CPU(tbq4_0)
KVARN_KV_CPU(tbq4_0_64)
KVARN_KV_CPU(planar3_0)
KVARN_KV_CPU(planar3_0_64)
KVARN_KV_CPU(tcq4_0)
KVARN_KV_CPU(tcq4_0_64)
KVARN_KV_CPU(tcq3_0)
KVARN_KV_CPU(tcq3_0_64)

// A type's to_float, for ours with this CPU's instructions (the trait itself is built for the least CPU).
GGML_BACKEND_API ggml_to_float_t kvarn_to_float(enum ggml_type type);

// Does the hint of a mul_mat ask for a Hadamard transform, upstream's or ours?
static inline bool kvarn_hint_is_hadamard(int32_t hint) {
    return hint == GGML_HINT_SRC0_IS_HADAMARD || hint == KVARN_HINT_ROTATE || hint == KVARN_HINT_UNROTATE;
}

// x = D*x where the hint has the signs on this side of the transform
static inline void kvarn_flip_signs(int32_t hint, int32_t side, float * x, int64_t n) {
    if (hint != side) {
        return;
    }
    for (int64_t i = 0; i < n; ++i) {
        uint32_t bits;
        memcpy(&bits, x + i, sizeof(bits));
        bits ^= kvarn_sign_bit((uint32_t) i);
        memcpy(x + i, &bits, sizeof(bits));
    }
}

// Rows of ggml-cpu.c's type_traits_cpu.
#define KVARN_KV_TYPE_TRAITS_CPU                          \
    KVARN_KV_TYPE_TRAIT_CPU(TBQ4_0,       tbq4_0)         \
    KVARN_KV_TYPE_TRAIT_CPU(PLANAR3_0,    planar3_0)      \
    KVARN_KV_TYPE_TRAIT_CPU(TBQ4_0_64,    tbq4_0_64)      \
    KVARN_KV_TYPE_TRAIT_CPU(PLANAR3_0_64, planar3_0_64)   \
    KVARN_KV_TYPE_TRAIT_CPU(TCQ4_0,       tcq4_0)         \
    KVARN_KV_TYPE_TRAIT_CPU(TCQ3_0,       tcq3_0)         \
    KVARN_KV_TYPE_TRAIT_CPU(TCQ4_0_64,    tcq4_0_64)      \
    KVARN_KV_TYPE_TRAIT_CPU(TCQ3_0_64,    tcq3_0_64)

#define KVARN_KV_TYPE_TRAIT_CPU(UPPER, lower)             \
    [GGML_TYPE_KVARN_##UPPER] = {                         \
        .from_float   = kvarn_quantize_row_##lower,       \
        .vec_dot      = kvarn_vec_dot_##lower##_q8_0,     \
        .vec_dot_type = GGML_TYPE_Q8_0,                   \
        .nrows        = 1,                                \
    },

#ifdef __cplusplus
}
#endif
