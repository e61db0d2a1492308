#include "kvarn-flash-attn-packed.h"

#include "ggml-cpu-impl.h"
#include "ggml-cpu.h"
#include "ggml-impl.h"
#include "simd-mappings.h"

#include <cstring>

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512VNNI__)

#include "kvarn-flash-attn-packed-codecs.h"
#include "kvarn-flash-attn-prefetch.h"

using namespace kvarn_fa;

// Row layout of kvarn_fa_queries::memory: dk int8, then per group a float scale and an int32 sum of its int8.
static size_t packed_row_bytes(int64_t dk) {
    return dk + dk/GROUP*(sizeof(float) + sizeof(int32_t));
}

// The four query values at q in every lane. A read each: an array of them goes through general registers, a broadcast at a time.
static inline __m512i four_of(const char * q) {
    int32_t four;
    memcpy(&four, q, sizeof(four));
    return _mm512_set1_epi32(four);
}

template <class codec>
static void packed_scores_16(const kvarn_fa_queries & queries, const sixteen_rows & rows, float * scores) {
    const int    n_groups  = queries.dk/GROUP;
    const size_t row_bytes = packed_row_bytes(queries.dk);
    __m512 d = rows.scales(codec::block_at(0));
    for (int g = 0; g < n_groups; g++) {
        __m512i u[8];
        codec::load(rows, g, u);
        if (g > 0 && codec::block_at(g) != codec::block_at(g - 1)) {  // a gather is dear, and groups of a block share its scale
            d = rows.scales(codec::block_at(g));
        }
        for (int m = 0; m < queries.n_rows; m++) {
            const char * q    = queries.memory + m*row_bytes;
            const char * side = q + queries.dk + g*(sizeof(float) + sizeof(int32_t));
            int32_t sum;
            float   dq;
            memcpy(&dq,  side,                 sizeof(dq));
            memcpy(&sum, side + sizeof(float), sizeof(sum));
            __m512i acc = _mm512_set1_epi32(-codec::bias*sum);
            for (int j = 0; j < 8; j++) {
                acc = _mm512_dpbusd_epi32(acc, u[j], four_of(q + g*GROUP + 4*j));
            }
            float * s = scores + m*KVARN_FA_KEYS;
            const __m512 part = _mm512_mul_ps(_mm512_cvtepi32_ps(acc), _mm512_set1_ps(dq));
            _mm512_storeu_ps(s, g == 0 ? _mm512_mul_ps(part, d) : _mm512_fmadd_ps(part, d, _mm512_loadu_ps(s)));
        }
    }
}

template <class codec>
static void packed_scores(const kvarn_fa_queries & queries, const kvarn_fa_cached & keys, float * scores) {
    const size_t row_bytes = ggml_row_size(keys.type, queries.dk);
    for (int first = 0; first < keys.n; first += 16) {
        const sixteen_rows rows(keys, first);
        for (const char * row : rows.begin) {
            prefetch_after(row, keys.stride, 0, row_bytes);
        }
        packed_scores_16<codec>(queries, rows, scores + first);
    }
}

using packed_scores_t = void (*)(const kvarn_fa_queries & queries, const kvarn_fa_cached & keys, float * scores);

static packed_scores_t packed_scores_of(ggml_type type) {
    switch (type) {
        case GGML_TYPE_Q8_0:               return packed_scores<byte_codec>;
        case GGML_TYPE_Q4_0:               return packed_scores<q4_0_codec>;
        case GGML_TYPE_IQ4_NL:             return packed_scores<level_codec<iq4_nl_layout,    iq4_nl_levels>>;
        case GGML_TYPE_KVARN_TBQ4_0:       return packed_scores<level_codec<tbq4_0_layout,    tbq4_levels>>;
        case GGML_TYPE_KVARN_TBQ4_0_64:    return packed_scores<level_codec<tbq4_0_64_layout, tbq4_levels>>;
        case GGML_TYPE_KVARN_PLANAR3_0:    return packed_scores<planar_codec<planar3_0_layout>>;
        case GGML_TYPE_KVARN_PLANAR3_0_64: return packed_scores<planar_codec<planar3_0_64_layout>>;
        case GGML_TYPE_KVARN_TCQ4_0:       return packed_scores<trellis_nibble_codec<tcq4_0_layout>>;
        case GGML_TYPE_KVARN_TCQ4_0_64:    return packed_scores<trellis_nibble_codec<tcq4_0_64_layout>>;
        case GGML_TYPE_KVARN_TCQ3_0:       return packed_scores<trellis_planar_codec<tcq3_0_layout>>;
        case GGML_TYPE_KVARN_TCQ3_0_64:    return packed_scores<trellis_planar_codec<tcq3_0_64_layout>>;
        default:                           return nullptr;
    }
}

void kvarn_fa_put_packed(const kvarn_fa_queries & queries, int row, const float * values) {
    char * q    = queries.memory + row*packed_row_bytes(queries.dk);
    char * side = q + queries.dk;
    const auto to_q8_0 = ggml_get_type_traits_cpu(GGML_TYPE_Q8_0)->from_float;
    for (int g = 0; g < queries.dk/GROUP; g++) {
        block_q8_0 block;
        to_q8_0(values + g*GROUP, &block, GROUP);
        int32_t sum = 0;
        for (int j = 0; j < GROUP; j++) {
            sum += block.qs[j];
        }
        const float d = GGML_CPU_FP16_TO_FP32(block.d);
        memcpy(q + g*GROUP, block.qs, GROUP);
        memcpy(side, &d, sizeof(d));
        memcpy(side + sizeof(d), &sum, sizeof(sum));
        side += sizeof(d) + sizeof(sum);
    }
}

bool kvarn_fa_can_pack(ggml_type key_type, int64_t dk) {
    return packed_scores_of(key_type) && dk % GROUP == 0;
}

void kvarn_fa_packed_scores(const kvarn_fa_queries & queries, const kvarn_fa_cached & keys, float * scores) {
    packed_scores_of(keys.type)(queries, keys, scores);
}

#else

bool kvarn_fa_can_pack(ggml_type, int64_t) {
    return false;
}

// nobody comes here without having asked
void kvarn_fa_put_packed(const kvarn_fa_queries &, int, const float *) {}
void kvarn_fa_packed_scores(const kvarn_fa_queries &, const kvarn_fa_cached &, float *) {}

#endif
