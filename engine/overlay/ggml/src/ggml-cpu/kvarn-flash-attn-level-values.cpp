#include "kvarn-flash-attn-few-values.h"

#include "ggml-cpu-impl.h"

#include <algorithm>
#include <cstring>

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__)

#include "kvarn-flash-attn-levels.h"
#include "kvarn-flash-attn-prefetch.h"

using namespace kvarn_fa;
using namespace kvarn_fa::avx512;

namespace {

constexpr int KEYS = KVARN_FA_KEYS;

// The weights of each query row, times the scale of group g in each cached row.
template <class codec>
void scale_weights(int n_rows, const float * from, const kvarn_fa_cached & values, int g, float (*weights)[KEYS]) {
    alignas(64) ggml_half scale[KEYS] = {};
    for (int key = 0; key < values.n; key++) {
        memcpy(scale + key, values.data + key*values.stride + codec::block_at(g), sizeof(ggml_half));
    }
    for (int i = 0; i < KEYS; i += 16) {
        const __m512 d = _mm512_cvtph_ps(_mm256_load_si256((const __m256i *) (scale + i)));
        for (int m = 0; m < n_rows; m++) {
            _mm512_store_ps(weights[m] + i, _mm512_mul_ps(_mm512_loadu_ps(from + m*KEYS + i), d));
        }
    }
}

// Columns of the groups that a codec decodes at once: their sums stay in registers, and nothing of a cached row is stored.
template <class codec, int n_rows>
void add_rows(const float (*weights)[KEYS], const kvarn_fa_cached & values, int g, float * out, int64_t ld) {
    constexpr int n = 2*codec::n_groups;
    __m512 sum[n_rows][n];
    for (int m = 0; m < n_rows; m++) {
        for (int j = 0; j < n; j++) {
            sum[m][j] = _mm512_setzero_ps();
        }
    }
    for (int key = 0; key < values.n; key++) {
        const char * row = values.data + key*values.stride;
        prefetch_after(row, values.stride, codec::block_at(g), codec::block_bytes);
        __m512 x[n];
        codec::levels(row, g, x);
        for (int m = 0; m < n_rows; m++) {
            const __m512 weight = _mm512_set1_ps(weights[m][key]);
            for (int j = 0; j < n; j++) {
                sum[m][j] = _mm512_fmadd_ps(weight, x[j], sum[m][j]);
            }
        }
    }
    for (int m = 0; m < n_rows; m++) {
        codec::put_in_order(sum[m]);
        for (int j = 0; j < n; j++) {
            float * to = out + m*ld + 16*j;
            _mm512_storeu_ps(to, _mm512_add_ps(_mm512_loadu_ps(to), sum[m][j]));
        }
    }
}

template <class codec>
void add_values(int n_rows, const float * from, const kvarn_fa_cached & values, int64_t dv, int64_t ld, float * out) {
    static_assert(codec::n_groups == 1 || codec::has_pairs, "a row of whole blocks has whole pairs");
    alignas(64) float weights[KVARN_FA_FEW_ROWS][KEYS];
    for (int g = 0; g < dv/GROUP; g += codec::n_groups) {
        if (codec::in_block(g) == 0) {
            scale_weights<codec>(n_rows, from, values, g, weights);
        }
        for (int row = 0; row < n_rows; row += 4) {
            float * to = out + row*ld + g*GROUP;
            switch (std::min(4, n_rows - row)) {
                case 4: add_rows<codec, 4>(weights + row, values, g, to, ld); break;
                case 3: add_rows<codec, 3>(weights + row, values, g, to, ld); break;
                case 2: add_rows<codec, 2>(weights + row, values, g, to, ld); break;
                case 1: add_rows<codec, 1>(weights + row, values, g, to, ld); break;
            }
        }
    }
}

using add_values_t = void (*)(int n_rows, const float * weights, const kvarn_fa_cached & values, int64_t dv, int64_t ld, float * out);

add_values_t add_values_of(ggml_type type) {
    switch (type) {
        case GGML_TYPE_Q8_0:               return add_values<byte_codec>;
        case GGML_TYPE_Q4_0:               return add_values<nibble_codec<q4_0_layout,      q4_0_levels>>;
        case GGML_TYPE_IQ4_NL:             return add_values<nibble_codec<iq4_nl_layout,    iq4_nl_levels>>;
        case GGML_TYPE_KVARN_TBQ4_0:       return add_values<level_pairs<tbq4_0_layout,    tbq4_levels>>;
        case GGML_TYPE_KVARN_TBQ4_0_64:    return add_values<level_pairs<tbq4_0_64_layout, tbq4_levels>>;
        case GGML_TYPE_KVARN_PLANAR3_0:    return add_values<planar_pairs<planar3_0_layout>>;
        case GGML_TYPE_KVARN_PLANAR3_0_64: return add_values<planar_pairs<planar3_0_64_layout>>;
        case GGML_TYPE_KVARN_TCQ4_0:       return add_values<trellis_nibble_pairs<tcq4_0_layout>>;
        case GGML_TYPE_KVARN_TCQ4_0_64:    return add_values<trellis_nibble_pairs<tcq4_0_64_layout>>;
        case GGML_TYPE_KVARN_TCQ3_0:       return add_values<trellis_planar_pairs<tcq3_0_layout>>;
        case GGML_TYPE_KVARN_TCQ3_0_64:    return add_values<trellis_planar_pairs<tcq3_0_64_layout>>;
        default:                           return nullptr;
    }
}

} // namespace

bool kvarn_fa_can_add_few(ggml_type type, int n_rows, int64_t dv) {
    return n_rows < KVARN_FA_FEW_ROWS && add_values_of(type) && dv % GROUP == 0;
}

void kvarn_fa_add_few_values(int n_rows, const float * weights, const kvarn_fa_cached & values, int64_t dv, int64_t ld, float * out) {
    add_values_of(values.type)(n_rows, weights, values, dv, ld, out);
}

#elif !defined(__AVX2__) || !defined(__FMA__)  // else kvarn-flash-attn-paired-values.cpp has them

bool kvarn_fa_can_add_few(ggml_type, int, int64_t) {
    return false;
}

// nobody comes here without having asked
void kvarn_fa_add_few_values(int, const float *, const kvarn_fa_cached &, int64_t, int64_t, float *) {}

#endif
