#pragma once

// tbq4_0 and planar3_0 on the CPU: dot products with Q8_0 rows, and writing rows byte for byte as kvarn-kv-types.h says.

#include "kvarn-kv-types.h"

#ifdef __cplusplus
extern "C" {
#endif

void kvarn_quantize_row_tbq4_0      (const float * GGML_RESTRICT x, void * GGML_RESTRICT y, int64_t k);
void kvarn_quantize_row_tbq4_0_64   (const float * GGML_RESTRICT x, void * GGML_RESTRICT y, int64_t k);
void kvarn_quantize_row_planar3_0   (const float * GGML_RESTRICT x, void * GGML_RESTRICT y, int64_t k);
void kvarn_quantize_row_planar3_0_64(const float * GGML_RESTRICT x, void * GGML_RESTRICT y, int64_t k);

// ggml_vec_dot_t; the second row is of block_q8_0
#define KVARN_VEC_DOT(name) \
    void kvarn_vec_dot_##name##_q8_0(int n, float * GGML_RESTRICT s, size_t bs, const void * GGML_RESTRICT vx, size_t bx, \
                                     const void * GGML_RESTRICT vy, size_t by, int nrc)
KVARN_VEC_DOT(tbq4_0);
KVARN_VEC_DOT(tbq4_0_64);
KVARN_VEC_DOT(planar3_0);
KVARN_VEC_DOT(planar3_0_64);

// Rows of ggml-cpu.c's type_traits_cpu.
#define KVARN_KV_TYPE_TRAITS_CPU                          \
    KVARN_KV_TYPE_TRAIT_CPU(TBQ4_0,       tbq4_0)         \
    KVARN_KV_TYPE_TRAIT_CPU(PLANAR3_0,    planar3_0)      \
    KVARN_KV_TYPE_TRAIT_CPU(TBQ4_0_64,    tbq4_0_64)      \
    KVARN_KV_TYPE_TRAIT_CPU(PLANAR3_0_64, planar3_0_64)

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
