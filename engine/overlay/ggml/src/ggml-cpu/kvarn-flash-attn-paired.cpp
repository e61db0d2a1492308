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

// 8 partial sums, four of each group. A query value is -128 only where its scale is 0, so moving a level's sign to it is exact.
static inline __m256i dot(const pair & x, const pair & magnitude, const query_pair & q) {
    const __m256i low  = _mm256_sign_epi8(_mm256_loadu_si256((const __m256i *) q.low),  x.low);
    const __m256i high = _mm256_sign_epi8(_mm256_loadu_si256((const __m256i *) q.high), x.high);
#if defined(__AVXVNNI__)
    return _mm256_dpbusd_avx_epi32(_mm256_dpbusd_avx_epi32(_mm256_setzero_si256(), magnitude.low, low), magnitude.high, high);
#else
    const __m256i one = _mm256_set1_epi16(1);
    return _mm256_add_epi32(_mm256_madd_epi16(_mm256_maddubs_epi16(magnitude.low, low), one),
                            _mm256_madd_epi16(_mm256_maddubs_epi16(magnitude.high, high), one));
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

template <class codec, int n_rows>
static void meet_four_keys(const query_pair * q, int n_pairs, const char * const * keys, float * scores) {
    __m256 total[n_rows];
    for (int m = 0; m < n_rows; m++) {
        total[m] = _mm256_setzero_ps();
    }
    for (int i = 0; i < n_pairs; i++) {
        __m256i sum[n_rows][4];
        for (int k = 0; k < 4; k++) {
            const pair x         = codec::levels(keys[k], 2*i);
            const pair magnitude = { _mm256_abs_epi8(x.low), _mm256_abs_epi8(x.high) };
            for (int m = 0; m < n_rows; m++) {
                sum[m][k] = dot(x, magnitude, q[m*n_pairs + i]);
            }
        }
        const __m256 d = scales_of<codec>(keys, 2*i);
        for (int m = 0; m < n_rows; m++) {
            const __m256i four  = _mm256_hadd_epi32(_mm256_hadd_epi32(sum[m][0], sum[m][1]), _mm256_hadd_epi32(sum[m][2], sum[m][3]));
            const __m256  scale = _mm256_mul_ps(d, _mm256_loadu_ps(q[m*n_pairs + i].scale));
            total[m] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(four), scale, total[m]);
        }
    }
    for (int m = 0; m < n_rows; m++) {
        _mm_storeu_ps(scores + m*KVARN_FA_KEYS, _mm_add_ps(_mm256_castps256_ps128(total[m]), _mm256_extractf128_ps(total[m], 1)));
    }
}

template <class codec, int n_rows>
static void meet_keys(const query_pair * q, int n_pairs, const kvarn_fa_cached & keys, float * scores) {
    for (int first = 0; first < keys.n; first += 4) {
        const char * four[4];
        for (int k = 0; k < 4; k++) {
            // past the end the last row stands in; nobody reads those scores
            four[k] = keys.data + std::min(first + k, keys.n - 1)*keys.stride;
        }
        meet_four_keys<codec, n_rows>(q, n_pairs, four, scores + first);
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
