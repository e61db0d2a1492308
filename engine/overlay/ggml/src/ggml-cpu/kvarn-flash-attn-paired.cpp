#include "kvarn-flash-attn-paired.h"

#include "ggml-cpu-impl.h"
#include "ggml-cpu.h"
#include "ggml-impl.h"
#include "simd-mappings.h"

#include <algorithm>
#include <cstring>

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)

#include "kvarn-flash-attn-pairs.h"

using namespace kvarn_fa;

// 64 values of a query row, quantised as q8_0 and laid out as the levels of a pair. A row has dk/64 of them.
struct query_pair {
    int8_t low[32];
    int8_t high[32];
    float  scale[8];  // four of each group
};

static_assert(sizeof(query_pair) <= 2*GROUP*sizeof(float), "kvarn_fa_query_bytes");

// 64 values of a few keys, decoded once for all rows. Through memory: with the sums at hand there are no registers to decode in.
struct decoded_keys {
    static constexpr int MAX = 32;
    int8_t levels[MAX][2][32];  // low and high
    int8_t magnitudes[MAX][2][32];

    template <class codec>
    void take(const char * const * keys, int n, int g) {
        for (int k = 0; k < n; k++) {
            const pair x = codec::levels(keys[k], g);
            _mm256_store_si256((__m256i *) levels[k][0], x.low);
            _mm256_store_si256((__m256i *) levels[k][1], x.high);
            _mm256_store_si256((__m256i *) magnitudes[k][0], _mm256_abs_epi8(x.low));
            _mm256_store_si256((__m256i *) magnitudes[k][1], _mm256_abs_epi8(x.high));
        }
    }
};

static inline __m256i load(const int8_t * from) {
    return _mm256_loadu_si256((const __m256i *) from);
}

// 8 partial sums, four of each group. A query value is -128 only where its scale is 0, so moving a level's sign to it is exact.
static inline __m256i dot(const decoded_keys & keys, int k, const query_pair & q) {
    const __m256i low  = _mm256_sign_epi8(load(q.low),  load(keys.levels[k][0]));
    const __m256i high = _mm256_sign_epi8(load(q.high), load(keys.levels[k][1]));
    const __m256i magnitude_low  = load(keys.magnitudes[k][0]);
    const __m256i magnitude_high = load(keys.magnitudes[k][1]);
#if defined(__AVXVNNI__)
    return _mm256_dpbusd_avx_epi32(_mm256_dpbusd_avx_epi32(_mm256_setzero_si256(), magnitude_low, low), magnitude_high, high);
#else
    const __m256i one = _mm256_set1_epi16(1);
    return _mm256_add_epi32(_mm256_madd_epi16(_mm256_maddubs_epi16(magnitude_low, low), one),
                            _mm256_madd_epi16(_mm256_maddubs_epi16(magnitude_high, high), one));
#endif
}

// The scales of groups g and g + 1 of four keys, those of a group in each lane.
template <class codec>
static inline __m256 scales_of(const char * const * keys, int g) {
    ggml_half d[4];
    const auto scales_at = [&](size_t offset) {
        for (int k = 0; k < 4; k++) {
            memcpy(d + k, keys[k] + offset, sizeof(d[k]));
        }
        return _mm_cvtph_ps(_mm_setr_epi16((short) d[0], (short) d[1], (short) d[2], (short) d[3], 0, 0, 0, 0));
    };
    const __m128 first = scales_at(codec::block_at(g));
    return _mm256_set_m128(codec::has_pairs ? first : scales_at(codec::block_at(g + 1)), first);
}

// n is a multiple of 4.
template <class codec, int n_rows>
static void meet(const query_pair * q, int n_pairs, const char * const * keys, int n, float * scores) {
    alignas(32) decoded_keys decoded;
    __m256 total[decoded_keys::MAX/4][n_rows];
    for (int i = 0; i < n_pairs; i++) {
        decoded.take<codec>(keys, n, 2*i);
        for (int k = 0; k < n; k += 4) {
            const __m256 d = scales_of<codec>(keys + k, 2*i);
            for (int m = 0; m < n_rows; m++) {
                const query_pair & row = q[m*n_pairs + i];
                const __m256i first  = _mm256_hadd_epi32(dot(decoded, k,     row), dot(decoded, k + 1, row));
                const __m256i second = _mm256_hadd_epi32(dot(decoded, k + 2, row), dot(decoded, k + 3, row));
                const __m256  four   = _mm256_cvtepi32_ps(_mm256_hadd_epi32(first, second));
                const __m256  scale  = _mm256_mul_ps(d, _mm256_loadu_ps(row.scale));
                total[k/4][m] = i == 0 ? _mm256_mul_ps(four, scale) : _mm256_fmadd_ps(four, scale, total[k/4][m]);
            }
        }
    }
    for (int k = 0; k < n; k += 4) {
        for (int m = 0; m < n_rows; m++) {
            const __m256 both_groups = total[k/4][m];
            _mm_storeu_ps(scores + m*KVARN_FA_KEYS + k, _mm_add_ps(_mm256_castps256_ps128(both_groups), _mm256_extractf128_ps(both_groups, 1)));
        }
    }
}

template <class codec, int n_rows>
static void meet_keys(const query_pair * q, int n_pairs, const kvarn_fa_cached & keys, float * scores) {
    static_assert(KVARN_FA_KEYS % 4 == 0, "scores are written by fours");
    for (int first = 0; first < keys.n; first += decoded_keys::MAX) {
        const int n = std::min((keys.n - first + 3)/4*4, +decoded_keys::MAX);
        const char * some[decoded_keys::MAX];
        for (int k = 0; k < n; k++) {
            // past the end the last row stands in; nobody reads those scores
            some[k] = keys.data + std::min(first + k, keys.n - 1)*keys.stride;
        }
        meet<codec, n_rows>(q, n_pairs, some, n, scores + first);
    }
}

template <class codec>
static void paired_scores(const kvarn_fa_queries & queries, const kvarn_fa_cached & keys, float * scores) {
    const int n_pairs = queries.dk/(2*GROUP);
    for (int row = 0; row < queries.n_rows; row += 4) {
        const query_pair * q = (const query_pair *) queries.memory + row*n_pairs;
        float * s = scores + row*KVARN_FA_KEYS;
        switch (std::min(4, queries.n_rows - row)) {
            case 4: meet_keys<codec, 4>(q, n_pairs, keys, s); break;
            case 3: meet_keys<codec, 3>(q, n_pairs, keys, s); break;
            case 2: meet_keys<codec, 2>(q, n_pairs, keys, s); break;
            case 1: meet_keys<codec, 1>(q, n_pairs, keys, s); break;
        }
    }
}

using paired_scores_t = void (*)(const kvarn_fa_queries & queries, const kvarn_fa_cached & keys, float * scores);

static paired_scores_t paired_scores_of(ggml_type type) {
    switch (type) {
        case GGML_TYPE_Q8_0:               return paired_scores<byte_pairs>;
        case GGML_TYPE_Q4_0:               return paired_scores<q4_0_pairs>;
        case GGML_TYPE_IQ4_NL:             return paired_scores<level_pairs<iq4_nl_layout,    iq4_nl_levels>>;
        case GGML_TYPE_KVARN_TBQ4_0:       return paired_scores<level_pairs<tbq4_0_layout,    tbq4_levels>>;
        case GGML_TYPE_KVARN_TBQ4_0_64:    return paired_scores<level_pairs<tbq4_0_64_layout, tbq4_levels>>;
        case GGML_TYPE_KVARN_PLANAR3_0:    return paired_scores<planar_pairs<planar3_0_layout>>;
        case GGML_TYPE_KVARN_PLANAR3_0_64: return paired_scores<planar_pairs<planar3_0_64_layout>>;
        case GGML_TYPE_KVARN_TCQ4_0:       return paired_scores<trellis_nibble_pairs<tcq4_0_layout>>;
        case GGML_TYPE_KVARN_TCQ4_0_64:    return paired_scores<trellis_nibble_pairs<tcq4_0_64_layout>>;
        case GGML_TYPE_KVARN_TCQ3_0:       return paired_scores<trellis_planar_pairs<tcq3_0_layout>>;
        case GGML_TYPE_KVARN_TCQ3_0_64:    return paired_scores<trellis_planar_pairs<tcq3_0_64_layout>>;
        default:                           return nullptr;
    }
}

bool kvarn_fa_can_pair(ggml_type key_type, int64_t dk) {
    return paired_scores_of(key_type) && dk % (2*GROUP) == 0;
}

void kvarn_fa_put_paired(const kvarn_fa_queries & queries, int row, const float * values) {
    const auto to_q8_0 = ggml_get_type_traits_cpu(GGML_TYPE_Q8_0)->from_float;
    const int n_pairs = queries.dk/(2*GROUP);
    query_pair * q = (query_pair *) queries.memory + row*n_pairs;
    for (int i = 0; i < n_pairs; i++) {
        block_q8_0 group[2];
        to_q8_0(values + i*2*GROUP, group, 2*GROUP);
        for (int g = 0; g < 2; g++) {
            memcpy(q[i].low  + g*16, group[g].qs,      16);
            memcpy(q[i].high + g*16, group[g].qs + 16, 16);
            std::fill_n(q[i].scale + g*4, 4, GGML_CPU_FP16_TO_FP32(group[g].d));
        }
    }
}

void kvarn_fa_paired_scores(const kvarn_fa_queries & queries, const kvarn_fa_cached & keys, float * scores) {
    paired_scores_of(keys.type)(queries, keys, scores);
}

#else

bool kvarn_fa_can_pair(ggml_type, int64_t) {
    return false;
}

// nobody comes here without having asked
void kvarn_fa_put_paired(const kvarn_fa_queries &, int, const float *) {}
void kvarn_fa_paired_scores(const kvarn_fa_queries &, const kvarn_fa_cached &, float *) {}

#endif
