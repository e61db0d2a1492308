#pragma once

// The KV cache types tbq4_0, planar3_0, tcq4_0 and tcq3_0: one fp16 scale per block and a codebook for N(0,1), nothing else.
// They are good only for values that a rotation has made Gaussian, so a cache that does not rotate must refuse them.
//
// A block holds KVARN_QK values, or half as many in the *_64 variants (head sizes that 64 divides and 128 does not).
// Every block is a row of groups of 32 values; value = d * level[index]. In tbq4_0 and planar3_0 the index is the stored
// symbol (Lloyd-Max levels); in tcq4_0 and tcq3_0 it depends on two symbols before as well (kvarn-kv-trellis.h).
//
//   tbq4_0, tcq4_0:    group g owns bytes qs[16g .. 16g+15]; byte j holds the symbol of value j (low nibble) and of value j + 16
//   planar3_0, tcq3_0: group g owns bytes qs[8g .. 8g+7], value j has symbol bits 0 and 1 in byte j % 8, at bit 2 * (j / 8),
//                      and bytes qh[4g .. 4g+3], where bit j of the little-endian 32-bit number is symbol bit 2
//
// Files that need the structs include ggml-common.h first, with the declarations that suit their language.

#include "ggml.h"
#include "kvarn-kv-trellis.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KVARN_QK    128
#define KVARN_QK_64  64

#ifdef GGML_COMMON_DECL
typedef struct { ggml_half d; uint8_t qs[KVARN_QK   /2]; } block_kvarn_tbq4_0;
typedef struct { ggml_half d; uint8_t qs[KVARN_QK_64/2]; } block_kvarn_tbq4_0_64;
typedef struct { ggml_half d; uint8_t qs[KVARN_QK   /4]; uint8_t qh[KVARN_QK   /8]; } block_kvarn_planar3_0;
typedef struct { ggml_half d; uint8_t qs[KVARN_QK_64/4]; uint8_t qh[KVARN_QK_64/8]; } block_kvarn_planar3_0_64;

typedef block_kvarn_tbq4_0       block_kvarn_tcq4_0;
typedef block_kvarn_tbq4_0_64    block_kvarn_tcq4_0_64;
typedef block_kvarn_planar3_0    block_kvarn_tcq3_0;
typedef block_kvarn_planar3_0_64 block_kvarn_tcq3_0_64;
#endif

// Levels of tbq4_0 and planar3_0 are in ascending order and symmetric: level[n - 1 - i] == -level[i].
// KVARN_*_PER_SIGMA is the number of level units in one standard deviation. It is chosen together with the rounded levels,
// for the least squared error: 0.009506 and 0.034549 of the variance, where unrounded levels reach 0.009501 and 0.034548.
// KVARN_*_D_MAX is the largest scale whose products with every level are finite in fp16.

#define KVARN_TBQ4_LEVELS      { -104, -79, -62, -48, -36, -25, -15, -5, 5, 15, 25, 36, 48, 62, 79, 104 }
#define KVARN_TBQ4_THRESHOLDS  { 10.0f, 20.0f, 30.5f, 42.0f, 55.0f, 70.5f, 91.5f } // between neighbours of one sign
#define KVARN_TBQ4_PER_SIGMA   38.14f
#define KVARN_TBQ4_D_MAX       629.5f

#define KVARN_PLANAR3_LEVELS     { -88, -55, -31, -10, 10, 31, 55, 88 }
#define KVARN_PLANAR3_THRESHOLDS { 20.5f, 43.0f, 71.5f }
#define KVARN_PLANAR3_PER_SIGMA  40.91f
#define KVARN_PLANAR3_D_MAX      744.0f

// What is written for a block x of n values, byte for byte the same in every implementation:
//   1. NaN counts as 0; everything else is clamped to +-KVARN_X_MAX (the largest fp16).
//   2. energy: x[l]^2 + x[l+32]^2 + .. in double for each l < 32, in this order, then the 32 sums are added pairwise,
//      l with l + 16, then + 8, + 4, + 2, + 1. Squares are exact in double, so contraction to FMA changes nothing.
//   3. index: the level nearest to x * (float) (PER_SIGMA * sqrt(n) / sqrt(energy)); a tie takes the level nearer to 0.
//      With a trellis: the indices of the nearest path, as kvarn-kv-trellis.h says.
//   4. d = fp16(min(sqrt(energy) / sqrt(sum of level^2), D_MAX)), so that the block keeps its norm.
//   5. A block whose d is 0 is all zero bytes; it reads as exact zeros.
#define KVARN_X_MAX 65504.0f

#define KVARN_KV_CODEC(lower)                                                                                          \
    GGML_API void kvarn_quantize_row_##lower##_ref(const float * GGML_RESTRICT x, void * GGML_RESTRICT y, int64_t k); \
    GGML_API void kvarn_dequantize_row_##lower    (const void * GGML_RESTRICT x, float * GGML_RESTRICT y, int64_t k);
KVARN_KV_CODEC(tbq4_0)
KVARN_KV_CODEC(tbq4_0_64)
KVARN_KV_CODEC(planar3_0)
KVARN_KV_CODEC(planar3_0_64)
KVARN_KV_CODEC(tcq4_0)
KVARN_KV_CODEC(tcq4_0_64)
KVARN_KV_CODEC(tcq3_0)
KVARN_KV_CODEC(tcq3_0_64)
#undef KVARN_KV_CODEC

// True when every scale in the row is finite.
GGML_API bool kvarn_validate_row(enum ggml_type type, const void * data, size_t n_bytes);

// The rotation that makes values fit for these types: R = H*D, a fixed random sign for each value, then the orthonormal
// Hadamard transform of n values; back again is D*H. A mul_mat with one of these hints in op_params[1] has that matrix as
// src0; a backend that knows the hint may transform instead of multiply. (Upstream's hint, 1, stands for H alone.)
#define KVARN_HINT_ROTATE   0x4b01
#define KVARN_HINT_UNROTATE 0x4b02

// The sign bit of D's entry i, in the place where a float has it.
static inline uint32_t kvarn_sign_bit(uint32_t i) {
    uint32_t h = (i + 1)*0x9e3779b1u;
    h = (h ^ (h >> 15))*0x85ebca77u;
    h = (h ^ (h >> 13))*0xc2b2ae3du;
    return h & 0x80000000u;
}

// For switches over ggml_type.
#define KVARN_KV_TYPE_CASES             \
    case GGML_TYPE_KVARN_TBQ4_0:        \
    case GGML_TYPE_KVARN_PLANAR3_0:     \
    case GGML_TYPE_KVARN_TBQ4_0_64:     \
    case GGML_TYPE_KVARN_PLANAR3_0_64:  \
    case GGML_TYPE_KVARN_TCQ4_0:        \
    case GGML_TYPE_KVARN_TCQ3_0:        \
    case GGML_TYPE_KVARN_TCQ4_0_64:     \
    case GGML_TYPE_KVARN_TCQ3_0_64:

// Rows of ggml.c's type_traits.
#define KVARN_KV_TYPE_TRAITS                                                        \
    KVARN_KV_TYPE_TRAIT(TBQ4_0,       tbq4_0,       KVARN_QK)                       \
    KVARN_KV_TYPE_TRAIT(PLANAR3_0,    planar3_0,    KVARN_QK)                       \
    KVARN_KV_TYPE_TRAIT(TBQ4_0_64,    tbq4_0_64,    KVARN_QK_64)                    \
    KVARN_KV_TYPE_TRAIT(PLANAR3_0_64, planar3_0_64, KVARN_QK_64)                    \
    KVARN_KV_TYPE_TRAIT(TCQ4_0,       tcq4_0,       KVARN_QK)                       \
    KVARN_KV_TYPE_TRAIT(TCQ3_0,       tcq3_0,       KVARN_QK)                       \
    KVARN_KV_TYPE_TRAIT(TCQ4_0_64,    tcq4_0_64,    KVARN_QK_64)                    \
    KVARN_KV_TYPE_TRAIT(TCQ3_0_64,    tcq3_0_64,    KVARN_QK_64)

#define KVARN_KV_TYPE_TRAIT(UPPER, lower, qk)                                       \
    [GGML_TYPE_KVARN_##UPPER] = {                                                   \
        .type_name                = #lower,                                         \
        .blck_size                = qk,                                             \
        .type_size                = sizeof(block_kvarn_##lower),                    \
        .is_quantized             = true,                                           \
        .to_float                 = kvarn_dequantize_row_##lower,                   \
        .from_float_ref           = kvarn_quantize_row_##lower##_ref,               \
    },

#ifdef __cplusplus
}
#endif
