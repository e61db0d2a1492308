#include "kvarn-flash-attn-unpack.h"

#include "kvarn-flash-attn-layout.h"
#include "kvarn-kv-cpu.h"

#include "ggml-cpu-impl.h"
#include "ggml-cpu.h"
#include "ggml-impl.h"
#include "simd-mappings.h"

#include <cstring>

using namespace kvarn_fa;

// This file is compiled for the machine it runs on, ggml's type traits (in ggml-base) are not: hence unpacking of our own for
// upstream's types that a cache is likely to have. The plain loops are made into vector code by the compiler.

static inline float scale_at(const char * block) {
    ggml_fp16_t d;
    memcpy(&d, block, sizeof(d));
    return GGML_CPU_FP16_TO_FP32(d);
}

static void unpack_bytes(const void * x, float * y, int64_t n) {
    const char * row = (const char *) x;
    for (int g = 0; g < n/GROUP; g++) {
        const float    d      = scale_at(row + q8_0_layout::block_at(g));
        const int8_t * levels = (const int8_t *) row + q8_0_layout::codes_at(g);
        for (int j = 0; j < GROUP; j++) {
            y[g*GROUP + j] = d*levels[j];
        }
    }
}

#if defined(__AVX2__)

// y = d * table[code] for 16 codes. It stays in registers: reading 16-byte stores back as wider loads stalls.
static inline void put_levels(const int8_t * table, __m128i codes, float d, float * y) {
    const __m128i levels = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *) table), codes);
#if defined(__AVX512F__)
    _mm512_storeu_ps(y, _mm512_mul_ps(_mm512_set1_ps(d), _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(levels))));
#else
    _mm256_storeu_ps(y,     _mm256_mul_ps(_mm256_set1_ps(d), _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(levels))));
    _mm256_storeu_ps(y + 8, _mm256_mul_ps(_mm256_set1_ps(d), _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(levels, 8)))));
#endif
}

static inline void put_nibbles(const char * codes, const int8_t * table, float d, float * y) {
    const __m128i x = _mm_loadu_si128((const __m128i *) codes);
    put_levels(table, _mm_and_si128(x, _mm_set1_epi8(0x0F)), d, y);
    put_levels(table, _mm_and_si128(_mm_srli_epi16(x, 4), _mm_set1_epi8(0x0F)), d, y + 16);
}

#else

static inline void put_nibbles(const char * codes, const int8_t * table, float d, float * y) {
    for (int j = 0; j < 16; j++) {
        y[j]      = d*table[codes[j] & 0x0F];
        y[j + 16] = d*table[(uint8_t) codes[j] >> 4];
    }
}

#endif

template <class at, class levels>
static void unpack_nibbles(const void * x, float * y, int64_t n) {
    const char * row = (const char *) x;
    for (int g = 0; g < n/GROUP; g++) {
        put_nibbles(row + at::codes_at(g), levels::table, scale_at(row + at::block_at(g)), y + g*GROUP);
    }
}

static void unpack_f32(const void * x, float * y, int64_t n) { memcpy(y, x, n*sizeof(float)); }
static void unpack_f16(const void * x, float * y, int64_t n) { ggml_cpu_fp16_to_fp32((const ggml_fp16_t *) x, y, n); }
static void unpack_bf16(const void * x, float * y, int64_t n) { ggml_cpu_bf16_to_fp32((const ggml_bf16_t *) x, y, n); }

ggml_to_float_t kvarn_fa_unpacker(ggml_type type) {
    switch (type) {
        case GGML_TYPE_F32:    return unpack_f32;
        case GGML_TYPE_F16:    return unpack_f16;
        case GGML_TYPE_BF16:   return unpack_bf16;
        case GGML_TYPE_Q8_0:   return unpack_bytes;
        case GGML_TYPE_Q4_0:   return unpack_nibbles<q4_0_layout,   q4_0_levels>;
        case GGML_TYPE_IQ4_NL: return unpack_nibbles<iq4_nl_layout, iq4_nl_levels>;
        default:               return kvarn_to_float(type);
    }
}
