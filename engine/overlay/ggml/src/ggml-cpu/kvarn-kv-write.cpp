#define GGML_COMMON_DECL_CPP
#include "ggml-common.h"

#include "ggml-cpu-impl.h"
#include "simd-mappings.h"

#include "kvarn-kv-cpu.h"

#include <cassert>
#include <cfloat>
#include <cmath>
#include <cstring>

// kvarn-kv-types.h fixes every step, so the result has the reference's bytes.

#if defined(__AVX2__)

#include "kvarn-kv-trellis-x86.h"

namespace {

struct thresholds {
    int    n;
    float  at[7];
    int8_t levels[16];
};

} // namespace

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

static inline __m256i nearest_8(const thresholds * t, __m256 v) {
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
static inline __m256i nearest_32(const thresholds * t, const float * x, float scale) {
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

static inline ggml_half scale_of(double norm, int level_energy, float d_max) {
    const float d = (float) (norm/sqrt((double) level_energy));
    return GGML_CPU_FP32_TO_FP16(d < d_max ? d : d_max);
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

// Symbols of n values, one a byte. Both return the sum of the squared levels.

template <const thresholds & book>
static int find_nearest(const float * x, int n, double factor, uint8_t * symbol) {
    const __m256i table = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *) book.levels));
    const float   scale = (float) factor;
    __m256i squares = _mm256_setzero_si256();
    for (int j = 0; j < n; j += 32) {
        const __m256i index = nearest_32(&book, x + j, scale);
        squares = _mm256_add_epi32(squares, squares_of(_mm256_shuffle_epi8(table, index)));
        _mm256_storeu_si256((__m256i *) (symbol + j), index);
    }
    return sum_of_int(squares);
}

template <const trellis & code>
static int find_path(const float * x, int n, double factor, uint8_t * symbol) {
    const double fine  = KVARN_TRELLIS_FRACTION*factor;
    const float  scale = fine < FLT_MAX ? (float) fine : FLT_MAX;
    __m256i squares = _mm256_setzero_si256();
    for (int j = 0; j < n; j += 2*code.ring) {
        __m256i q[8];
        int8_t  level[2*code.ring];
        for (int i = 0; i < 2*code.ring/8; ++i) {
            q[i] = _mm256_cvtps_epi32(_mm256_mul_ps(load_clean(x + j + 8*i), _mm256_set1_ps(scale)));
        }
        search_two_rings<code>(q, symbol + j, level);
        for (int i = 0; i < 2*code.ring; i += 32) {
            squares = _mm256_add_epi32(squares, squares_of(_mm256_loadu_si256((const __m256i *) (level + i))));
        }
    }
    return sum_of_int(squares);
}

static constexpr thresholds tbq4_thresholds    = { 7, KVARN_TBQ4_THRESHOLDS,    KVARN_TBQ4_LEVELS };
static constexpr thresholds planar3_thresholds = { 3, KVARN_PLANAR3_THRESHOLDS, KVARN_PLANAR3_LEVELS };
static constexpr int8_t     tcq4_levels[32]    = KVARN_TCQ4_LEVELS;
static constexpr int8_t     tcq3_levels[16]    = KVARN_TCQ3_LEVELS;
static constexpr trellis    tcq4_trellis       = make_trellis(tcq4_levels, 4, KVARN_TCQ4_RING);
static constexpr trellis    tcq3_trellis       = make_trellis(tcq3_levels, 3, KVARN_TCQ3_RING);

struct tbq4 {
    static constexpr float per_sigma = KVARN_TBQ4_PER_SIGMA;
    static constexpr float d_max     = KVARN_TBQ4_D_MAX;
    static constexpr auto  find      = find_nearest<tbq4_thresholds>;
};
struct planar3 {
    static constexpr float per_sigma = KVARN_PLANAR3_PER_SIGMA;
    static constexpr float d_max     = KVARN_PLANAR3_D_MAX;
    static constexpr auto  find      = find_nearest<planar3_thresholds>;
};
struct tcq4 {
    static constexpr float per_sigma = KVARN_TCQ4_PER_SIGMA;
    static constexpr float d_max     = KVARN_TCQ4_D_MAX;
    static constexpr auto  find      = find_path<tcq4_trellis>;
};
struct tcq3 {
    static constexpr float per_sigma = KVARN_TCQ3_PER_SIGMA;
    static constexpr float d_max     = KVARN_TCQ3_D_MAX;
    static constexpr auto  find      = find_path<tcq3_trellis>;
};

static void store(block_kvarn_tbq4_0       & y, int g, __m256i symbols) { store_nibbles(y.qs + 16*g, symbols); }
static void store(block_kvarn_tbq4_0_64    & y, int g, __m256i symbols) { store_nibbles(y.qs + 16*g, symbols); }
static void store(block_kvarn_planar3_0    & y, int g, __m256i symbols) { store_planes(y.qs + 8*g, y.qh + 4*g, symbols); }
static void store(block_kvarn_planar3_0_64 & y, int g, __m256i symbols) { store_planes(y.qs + 8*g, y.qh + 4*g, symbols); }

template <class book, class block, int qk>
static void quantize_row(const float * x, block * y, int64_t k) {
    assert(k % qk == 0);
    for (; k > 0; k -= qk, x += qk, ++y) {
        const double norm = sqrt(energy_of(x, qk));
        y->d = 0;
        if (norm > 0.0) {
            uint8_t symbol[qk];
            const int level_energy = book::find(x, qk, book::per_sigma*sqrt((double) qk)/norm, symbol);
            for (int g = 0; g < qk/32; ++g) {
                store(*y, g, _mm256_loadu_si256((const __m256i *) (symbol + 32*g)));
            }
            y->d = scale_of(norm, level_energy, book::d_max);
        }
        if (y->d == 0) {
            memset(y, 0, sizeof(*y));
        }
    }
}

#define KVARN_QUANTIZE(book, name, qk)                                                                    \
void kvarn_quantize_row_##name(const float * GGML_RESTRICT x, void * GGML_RESTRICT y, int64_t k) {        \
    quantize_row<book, block_kvarn_##name, qk>(x, (block_kvarn_##name *) y, k);                           \
}

#else

#define KVARN_QUANTIZE(book, name, qk)                                                                    \
void kvarn_quantize_row_##name(const float * GGML_RESTRICT x, void * GGML_RESTRICT y, int64_t k) {        \
    kvarn_quantize_row_##name##_ref(x, y, k);                                                             \
}

#endif

KVARN_QUANTIZE(tbq4,    tbq4_0,       KVARN_QK)
KVARN_QUANTIZE(tbq4,    tbq4_0_64,    KVARN_QK_64)
KVARN_QUANTIZE(planar3, planar3_0,    KVARN_QK)
KVARN_QUANTIZE(planar3, planar3_0_64, KVARN_QK_64)
KVARN_QUANTIZE(tcq4,    tcq4_0,       KVARN_QK)
KVARN_QUANTIZE(tcq4,    tcq4_0_64,    KVARN_QK_64)
KVARN_QUANTIZE(tcq3,    tcq3_0,       KVARN_QK)
KVARN_QUANTIZE(tcq3,    tcq3_0_64,    KVARN_QK_64)
