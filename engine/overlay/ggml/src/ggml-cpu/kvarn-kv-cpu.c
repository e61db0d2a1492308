#define GGML_COMMON_DECL_C
#include "ggml-common.h"

#include "kvarn-kv-cpu.h"

#include "ggml-cpu-impl.h"
#include "simd-mappings.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// One group of 32 values is the unit everywhere: 16 bytes of nibbles, or 8 + 4 bytes of planes, against one block_q8_0.
// Each function of the first part exists once per instruction set; the rest is built from them.

#if defined(__AVX2__)

// 16 levels in both halves, for a byte shuffle within 128-bit lanes
static inline __m256i tbq4_table(void) {
    static const int8_t levels[16] = KVARN_TBQ4_LEVELS;
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *) levels));
}

static inline __m256i planar3_table(void) {
    static const int8_t levels[8] = KVARN_PLANAR3_LEVELS;
    int64_t eight;
    memcpy(&eight, levels, 8);
    return _mm256_set1_epi64x(eight);
}

static inline __m256i tbq4_group(__m256i table, const uint8_t * qs) {
    const __m128i bytes = _mm_loadu_si128((const __m128i *) qs);
    const __m256i both  = _mm256_set_m128i(_mm_srli_epi16(bytes, 4), bytes);
    return _mm256_shuffle_epi8(table, _mm256_and_si256(both, _mm256_set1_epi8(15)));
}

static inline __m256i planar3_group(__m256i table, const uint8_t * qs, const uint8_t * qh) {
    int64_t low_bits;
    int32_t high_bits;
    memcpy(&low_bits,  qs, 8);
    memcpy(&high_bits, qh, 4);
    const __m256i shifted = _mm256_srlv_epi64(_mm256_set1_epi64x(low_bits), _mm256_set_epi64x(6, 4, 2, 0));
    const __m256i low     = _mm256_and_si256(shifted, _mm256_set1_epi8(3));
#if defined(__AVX512BW__) && defined(__AVX512VL__)
    const __m256i high    = _mm256_maskz_set1_epi8((__mmask32) high_bits, 4);
#else
    const __m256i spread  = _mm256_shuffle_epi8(_mm256_set1_epi32(high_bits),
            _mm256_set_epi64x(0x0303030303030303, 0x0202020202020202, 0x0101010101010101, 0));
    const __m256i bit     = _mm256_set1_epi64x(0x8040201008040201);
    const __m256i high    = _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_and_si256(spread, bit), bit), _mm256_set1_epi8(4));
#endif
    return _mm256_shuffle_epi8(table, _mm256_or_si256(low, high));
}

// 8 partial sums of x[i]*y[i]; no level is 0 or -128, so moving x's sign to y is exact
static inline __m256 dot_group(__m256i x, const block_q8_0 * y) {
    const __m256i q  = _mm256_loadu_si256((const __m256i *) y->qs);
    const __m256i ax = _mm256_sign_epi8(x, x);
    const __m256i sy = _mm256_sign_epi8(q, x);
#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
    const __m256i sum = _mm256_dpbusd_epi32(_mm256_setzero_si256(), ax, sy);
#elif defined(__AVXVNNI__)
    const __m256i sum = _mm256_dpbusd_avx_epi32(_mm256_setzero_si256(), ax, sy);
#else
    const __m256i sum = _mm256_madd_epi16(_mm256_maddubs_epi16(ax, sy), _mm256_set1_epi16(1));
#endif
    return _mm256_mul_ps(_mm256_cvtepi32_ps(sum), _mm256_set1_ps(GGML_CPU_FP16_TO_FP32(y->d)));
}

static inline float sum_of(__m256 v) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

static inline void store_scaled(float * y, __m256i x, float d) {
    const __m128i half[2] = { _mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1) };
    for (int i = 0; i < 4; ++i) {
        const __m256i eight = _mm256_cvtepi8_epi32(i % 2 ? _mm_unpackhi_epi64(half[i/2], half[i/2]) : half[i/2]);
        _mm256_storeu_ps(y + 8*i, _mm256_mul_ps(_mm256_cvtepi32_ps(eight), _mm256_set1_ps(d)));
    }
}

typedef __m256i levels_t;
typedef __m256  sums_t;
#define SUMS_ZERO            _mm256_setzero_ps()
#define SUMS_ADD(a, b)       _mm256_add_ps(a, b)
#define SUMS_SCALE_ADD(a, b, d) _mm256_add_ps(a, _mm256_mul_ps(b, _mm256_set1_ps(d)))

#elif defined(__ARM_NEON) && defined(__aarch64__)

typedef int8x16x2_t levels_t; // values 0..15 and 16..31 of a group
typedef float32x4_t sums_t;

static inline int8x16_t tbq4_table(void) {
    static const int8_t levels[16] = KVARN_TBQ4_LEVELS;
    return vld1q_s8(levels);
}

static inline int8x16_t planar3_table(void) {
    static const int8_t levels[8] = KVARN_PLANAR3_LEVELS;
    return vcombine_s8(vld1_s8(levels), vld1_s8(levels));
}

static inline levels_t tbq4_group(int8x16_t table, const uint8_t * qs) {
    const uint8x16_t bytes = vld1q_u8(qs);
    levels_t r;
    r.val[0] = vqtbl1q_s8(table, vandq_u8(bytes, vdupq_n_u8(15)));
    r.val[1] = vqtbl1q_s8(table, vshrq_n_u8(bytes, 4));
    return r;
}

static inline uint8x16_t planar3_high(uint8_t first, uint8_t second) {
    static const uint8_t bits[8] = { 1, 2, 4, 8, 16, 32, 64, 128 };
    const uint8x16_t bit = vcombine_u8(vld1_u8(bits), vld1_u8(bits));
    return vandq_u8(vtstq_u8(vcombine_u8(vdup_n_u8(first), vdup_n_u8(second)), bit), vdupq_n_u8(4));
}

static inline levels_t planar3_group(int8x16_t table, const uint8_t * qs, const uint8_t * qh) {
    const uint8x8_t  b    = vld1_u8(qs);
    const uint8x16_t mask = vdupq_n_u8(3);
    const uint8x16_t low0 = vandq_u8(vcombine_u8(b,                vshr_n_u8(b, 2)), mask);
    const uint8x16_t low1 = vandq_u8(vcombine_u8(vshr_n_u8(b, 4),  vshr_n_u8(b, 6)), mask);
    levels_t r;
    r.val[0] = vqtbl1q_s8(table, vorrq_u8(low0, planar3_high(qh[0], qh[1])));
    r.val[1] = vqtbl1q_s8(table, vorrq_u8(low1, planar3_high(qh[2], qh[3])));
    return r;
}

static inline sums_t dot_group(levels_t x, const block_q8_0 * y) {
    int32x4_t sum = ggml_vdotq_s32(vdupq_n_s32(0), x.val[0], vld1q_s8(y->qs));
    sum = ggml_vdotq_s32(sum, x.val[1], vld1q_s8(y->qs + 16));
    return vmulq_n_f32(vcvtq_f32_s32(sum), GGML_CPU_FP16_TO_FP32(y->d));
}

static inline float sum_of(sums_t v) {
    return vaddvq_f32(v);
}

static inline void store_scaled(float * y, levels_t x, float d) {
    for (int i = 0; i < 4; ++i) {
        const int16x8_t eight = vmovl_s8(i % 2 ? vget_high_s8(x.val[i/2]) : vget_low_s8(x.val[i/2]));
        vst1q_f32(y + 8*i,     vmulq_n_f32(vcvtq_f32_s32(vmovl_s16(vget_low_s16 (eight))), d));
        vst1q_f32(y + 8*i + 4, vmulq_n_f32(vcvtq_f32_s32(vmovl_s16(vget_high_s16(eight))), d));
    }
}

#define SUMS_ZERO            vdupq_n_f32(0.0f)
#define SUMS_ADD(a, b)       vaddq_f32(a, b)
#define SUMS_SCALE_ADD(a, b, d) vaddq_f32(a, vmulq_n_f32(b, d))

#else

typedef struct { int8_t v[32]; } levels_t;
typedef float sums_t;

static inline const int8_t * tbq4_table(void) {
    static const int8_t levels[16] = KVARN_TBQ4_LEVELS;
    return levels;
}

static inline const int8_t * planar3_table(void) {
    static const int8_t levels[8] = KVARN_PLANAR3_LEVELS;
    return levels;
}

static inline levels_t tbq4_group(const int8_t * table, const uint8_t * qs) {
    levels_t r;
    for (int j = 0; j < 16; ++j) {
        r.v[j]      = table[qs[j] & 15];
        r.v[j + 16] = table[qs[j] >> 4];
    }
    return r;
}

static inline levels_t planar3_group(const int8_t * table, const uint8_t * qs, const uint8_t * qh) {
    levels_t r;
    for (int j = 0; j < 32; ++j) {
        r.v[j] = table[((qs[j%8] >> 2*(j/8)) & 3) | ((qh[j/8] >> j%8) & 1) << 2];
    }
    return r;
}

static inline sums_t dot_group(levels_t x, const block_q8_0 * y) {
    int sum = 0;
    for (int j = 0; j < 32; ++j) {
        sum += x.v[j]*y->qs[j];
    }
    return sum*GGML_CPU_FP16_TO_FP32(y->d);
}

static inline float sum_of(sums_t v) {
    return v;
}

static inline void store_scaled(float * y, levels_t x, float d) {
    for (int j = 0; j < 32; ++j) {
        y[j] = d*x.v[j];
    }
}

#define SUMS_ZERO            0.0f
#define SUMS_ADD(a, b)       ((a) + (b))
#define SUMS_SCALE_ADD(a, b, d) ((a) + (b)*(d))

#endif

#define DEFINE_READERS(name, qk, GROUP)                                                              \
KVARN_VEC_DOT(name) {                                                                                \
    assert(n % qk == 0);                                                                             \
    assert(nrc == 1);                                                                                \
    GGML_UNUSED(nrc);                                                                                \
    GGML_UNUSED(bs);                                                                                 \
    GGML_UNUSED(bx);                                                                                 \
    GGML_UNUSED(by);                                                                                 \
    const block_kvarn_##name * x = vx;                                                               \
    const block_q8_0         * y = vy;                                                               \
    sums_t total = SUMS_ZERO;                                                                        \
    for (int i = 0; i < n/qk; ++i) {                                                                 \
        sums_t sums = SUMS_ZERO;                                                                     \
        for (int g = 0; g < qk/32; ++g) {                                                            \
            sums = SUMS_ADD(sums, dot_group(GROUP, y + i*(qk/32) + g));                              \
        }                                                                                            \
        total = SUMS_SCALE_ADD(total, sums, GGML_CPU_FP16_TO_FP32(x[i].d));                          \
    }                                                                                                \
    *s = sum_of(total);                                                                              \
}                                                                                                    \
static void read_row_##name(const void * GGML_RESTRICT vx, float * GGML_RESTRICT y, int64_t k) {     \
    assert(k % qk == 0);                                                                             \
    const block_kvarn_##name * x = vx;                                                               \
    for (int64_t i = 0; i < k/qk; ++i) {                                                             \
        const float d = GGML_CPU_FP16_TO_FP32(x[i].d);                                               \
        for (int g = 0; g < qk/32; ++g) {                                                            \
            store_scaled(y + i*qk + 32*g, GROUP, d);                                                 \
        }                                                                                            \
    }                                                                                                \
}

DEFINE_READERS(tbq4_0,       KVARN_QK,    tbq4_group(tbq4_table(), x[i].qs + 16*g))
DEFINE_READERS(tbq4_0_64,    KVARN_QK_64, tbq4_group(tbq4_table(), x[i].qs + 16*g))
DEFINE_READERS(planar3_0,    KVARN_QK,    planar3_group(planar3_table(), x[i].qs + 8*g, x[i].qh + 4*g))
DEFINE_READERS(planar3_0_64, KVARN_QK_64, planar3_group(planar3_table(), x[i].qs + 8*g, x[i].qh + 4*g))

ggml_to_float_t kvarn_to_float(enum ggml_type type) {
    switch (type) {
        case GGML_TYPE_KVARN_TBQ4_0:       return read_row_tbq4_0;
        case GGML_TYPE_KVARN_TBQ4_0_64:    return read_row_tbq4_0_64;
        case GGML_TYPE_KVARN_PLANAR3_0:    return read_row_planar3_0;
        case GGML_TYPE_KVARN_PLANAR3_0_64: return read_row_planar3_0_64;
        default:                           return ggml_get_type_traits(type)->to_float;
    }
}

// Writing rows. kvarn-kv-types.h fixes every step, so the result has the reference's bytes.

#if defined(__AVX2__)

struct thresholds {
    float per_sigma, d_max;
    int n;
    float at[7];
};

static const struct thresholds tbq4    = { KVARN_TBQ4_PER_SIGMA,    KVARN_TBQ4_D_MAX,    7, KVARN_TBQ4_THRESHOLDS };
static const struct thresholds planar3 = { KVARN_PLANAR3_PER_SIGMA, KVARN_PLANAR3_D_MAX, 3, KVARN_PLANAR3_THRESHOLDS };

static inline __m256 load_clean(const float * x) {
    const __m256 v = _mm256_loadu_ps(x);
    const __m256 w = _mm256_and_ps(v, _mm256_cmp_ps(v, v, _CMP_ORD_Q));
    return _mm256_max_ps(_mm256_min_ps(w, _mm256_set1_ps(KVARN_X_MAX)), _mm256_set1_ps(-KVARN_X_MAX));
}

static inline double energy_of(const float * x, int n) {
    __m256d sum[8];
    for (int i = 0; i < 8; ++i) {
        sum[i] = _mm256_setzero_pd();
    }
    for (int j = 0; j < n; j += 32) {
        for (int i = 0; i < 4; ++i) {
            const __m256  v  = load_clean(x + j + 8*i);
            const __m256d lo = _mm256_cvtps_pd(_mm256_castps256_ps128(v));
            const __m256d hi = _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));
            sum[2*i + 0] = _mm256_add_pd(sum[2*i + 0], _mm256_mul_pd(lo, lo));
            sum[2*i + 1] = _mm256_add_pd(sum[2*i + 1], _mm256_mul_pd(hi, hi));
        }
    }
    for (int step = 4; step > 0; step /= 2) { // lanes 16, 8 and 4 apart
        for (int i = 0; i < step; ++i) {
            sum[i] = _mm256_add_pd(sum[i], sum[i + step]);
        }
    }
    const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(sum[0]), _mm256_extractf128_pd(sum[0], 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

static inline __m256i nearest_8(const struct thresholds * t, __m256 v) {
    const __m256 magnitude = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), v);
    __m256i index = _mm256_set1_epi32(t->n + 1);
    for (int i = 0; i < t->n; ++i) {
        index = _mm256_sub_epi32(index, _mm256_castps_si256(_mm256_cmp_ps(magnitude, _mm256_set1_ps(t->at[i]), _CMP_GT_OQ)));
    }
    // n_levels is a power of two: mirroring is flipping all index bits
    const __m256i negative = _mm256_castps_si256(_mm256_cmp_ps(v, _mm256_setzero_ps(), _CMP_LT_OQ));
    return _mm256_xor_si256(index, _mm256_and_si256(negative, _mm256_set1_epi32(2*t->n + 1)));
}

// indices of a group of 32 values, one a byte
static inline __m256i nearest_32(const struct thresholds * t, const float * x, float scale) {
    __m256i part[4];
    for (int i = 0; i < 4; ++i) {
        part[i] = nearest_8(t, _mm256_mul_ps(load_clean(x + 8*i), _mm256_set1_ps(scale)));
    }
    const __m256i bytes = _mm256_packus_epi16(_mm256_packs_epi32(part[0], part[1]), _mm256_packs_epi32(part[2], part[3]));
    return _mm256_permutevar8x32_epi32(bytes, _mm256_set_epi32(7, 3, 6, 2, 5, 1, 4, 0));
}

static inline __m256i squares_of(__m256i levels) {
    const __m256i magnitude = _mm256_abs_epi8(levels);
    return _mm256_madd_epi16(_mm256_maddubs_epi16(magnitude, magnitude), _mm256_set1_epi16(1));
}

static inline int sum_of_int(__m256i v) {
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    s = _mm_add_epi32(s, _mm_unpackhi_epi64(s, s));
    return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 1)));
}

static inline ggml_half scale_of(const struct thresholds * t, double norm, int level_energy) {
    const float d = (float) (norm/sqrt((double) level_energy));
    return GGML_CPU_FP32_TO_FP16(d < t->d_max ? d : t->d_max);
}

static inline void store_nibbles(uint8_t * qs, __m256i index) {
    const __m128i high = _mm_slli_epi16(_mm256_extracti128_si256(index, 1), 4);
    _mm_storeu_si128((__m128i *) qs, _mm_or_si128(_mm256_castsi256_si128(index), high));
}

static inline void store_planes(uint8_t * qs, uint8_t * qh, __m256i index) {
    const __m256i low = _mm256_sllv_epi64(_mm256_and_si256(index, _mm256_set1_epi8(3)), _mm256_set_epi64x(6, 4, 2, 0));
    const __m128i two = _mm_or_si128(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
    _mm_storel_epi64((__m128i *) qs, _mm_or_si128(two, _mm_unpackhi_epi64(two, two)));
    const int32_t high = _mm256_movemask_epi8(_mm256_slli_epi16(index, 5));
    memcpy(qh, &high, 4);
}

#define DEFINE_QUANTIZE(name, qk, BOOK, STORE)                                                            \
void kvarn_quantize_row_##name(const float * GGML_RESTRICT x, void * GGML_RESTRICT vy, int64_t k) {       \
    assert(k % qk == 0);                                                                                  \
    block_kvarn_##name * y = vy;                                                                          \
    const __m256i table = BOOK##_table();                                                                 \
    for (int64_t i = 0; i < k/qk; ++i, x += qk, ++y) {                                                    \
        const double norm  = sqrt(energy_of(x, qk));                                                      \
        const float  scale = (float) (BOOK.per_sigma*sqrt((double) qk)/norm);                             \
        __m256i squares = _mm256_setzero_si256();                                                         \
        for (int g = 0; g < qk/32; ++g) {                                                                 \
            const __m256i index = nearest_32(&BOOK, x + 32*g, scale);                                     \
            squares = _mm256_add_epi32(squares, squares_of(_mm256_shuffle_epi8(table, index)));           \
            STORE;                                                                                        \
        }                                                                                                 \
        y->d = norm > 0.0 ? scale_of(&BOOK, norm, sum_of_int(squares)) : 0;                               \
        if (y->d == 0) {                                                                                  \
            memset(y, 0, sizeof(*y));                                                                     \
        }                                                                                                 \
    }                                                                                                     \
}

#else

#define DEFINE_QUANTIZE(name, qk, BOOK, STORE)                                                            \
void kvarn_quantize_row_##name(const float * GGML_RESTRICT x, void * GGML_RESTRICT y, int64_t k) {        \
    kvarn_quantize_row_##name##_ref(x, y, k);                                                             \
}

#endif

DEFINE_QUANTIZE(tbq4_0,       KVARN_QK,    tbq4,    store_nibbles(y->qs + 16*g, index))
DEFINE_QUANTIZE(tbq4_0_64,    KVARN_QK_64, tbq4,    store_nibbles(y->qs + 16*g, index))
DEFINE_QUANTIZE(planar3_0,    KVARN_QK,    planar3, store_planes(y->qs + 8*g, y->qh + 4*g, index))
DEFINE_QUANTIZE(planar3_0_64, KVARN_QK_64, planar3, store_planes(y->qs + 8*g, y->qh + 4*g, index))
