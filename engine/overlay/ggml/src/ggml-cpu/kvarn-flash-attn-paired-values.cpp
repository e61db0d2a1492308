#include "kvarn-flash-attn-few-values.h"

#include "ggml-cpu-impl.h"
#include "ggml-impl.h"
#include "simd-mappings.h"

#include <algorithm>
#include <cstring>

// Where AVX2 is all there is: kvarn-flash-attn-level-values.cpp has the same two functions for AVX-512, and for neither.
#if defined(__AVX2__) && defined(__FMA__) && !(defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__))

#include "kvarn-flash-attn-pairs.h"

using namespace kvarn_fa;

namespace {

constexpr int KEYS = KVARN_FA_KEYS;

// 64 columns of up to 64 cached rows.
struct column_pair {
    int n;
    alignas(32) int8_t levels[KEYS][2][32];  // low and high
    float weights[KVARN_FA_FEW_ROWS][KEYS];  // of each query row, times the key's scale

    template <class codec>
    void take(int n_rows, const float * from, const kvarn_fa_cached & values, int g) {
        static_assert(codec::has_pairs, "one scale for both groups");
        float scale[KEYS];
        n = values.n;
        for (int key = 0; key < n; key++) {
            const char * row = values.data + key*values.stride;
            const pair x = codec::levels(row, g);
            _mm256_store_si256((__m256i *) levels[key][0], x.low);
            _mm256_store_si256((__m256i *) levels[key][1], x.high);
            ggml_half d;
            memcpy(&d, row + codec::block_at(g), sizeof(d));
            scale[key] = GGML_CPU_FP16_TO_FP32(d);
        }
        for (int m = 0; m < n_rows; m++) {
            for (int key = 0; key < n; key++) {
                weights[m][key] = from[m*KEYS + key]*scale[key];
            }
        }
    }
};

// Byte j of each 32-bit lane, times 2^24.
template <int j>
__m256 byte_of(__m256i x) {
    const __m256i top = j == 3 ? x : _mm256_slli_epi32(x, 24 - 8*j);
    return _mm256_cvtepi32_ps(j == 0 ? top : _mm256_and_si256(top, _mm256_set1_epi32((int32_t) 0xFF000000)));
}

// sums[m][j] = columns 4*i + j in lane i, for two bytes j or all four: what fits the registers.
template <int n_rows, int first, int count>
void add_bytes(const column_pair & c, const float (*weights)[KEYS], int half, __m256 (*sums)[4]) {
    __m256 sum[n_rows][count];
    for (int m = 0; m < n_rows; m++) {
        for (int j = 0; j < count; j++) {
            sum[m][j] = _mm256_setzero_ps();
        }
    }
    for (int key = 0; key < c.n; key++) {
        const __m256i x = _mm256_load_si256((const __m256i *) c.levels[key][half]);
        const auto add = [&](int j, __m256 v) {
            for (int m = 0; m < n_rows; m++) {
                sum[m][j] = _mm256_fmadd_ps(_mm256_broadcast_ss(&weights[m][key]), v, sum[m][j]);
            }
        };
        add(0, byte_of<first>(x));
        add(1, byte_of<first + 1>(x));
        if constexpr (count == 4) {
            add(2, byte_of<first + 2>(x));
            add(3, byte_of<first + 3>(x));
        }
    }
    for (int m = 0; m < n_rows; m++) {
        for (int j = 0; j < count; j++) {
            sums[m][first + j] = sum[m][j];
        }
    }
}

// Puts the columns of a half back in order.
void add_in_order(const __m256 * sums, float * out) {
    const __m256 a = _mm256_unpacklo_ps(sums[0], sums[1]);
    const __m256 b = _mm256_unpackhi_ps(sums[0], sums[1]);
    const __m256 c = _mm256_unpacklo_ps(sums[2], sums[3]);
    const __m256 d = _mm256_unpackhi_ps(sums[2], sums[3]);
    const auto add = [&](int i, __m256d both) {
        const __m256 four = _mm256_mul_ps(_mm256_castpd_ps(both), _mm256_set1_ps(0x1p-24f));
        float * first  = out + 4*i;
        float * second = first + GROUP;
        _mm_storeu_ps(first,  _mm_add_ps(_mm_loadu_ps(first),  _mm256_castps256_ps128(four)));
        _mm_storeu_ps(second, _mm_add_ps(_mm_loadu_ps(second), _mm256_extractf128_ps(four, 1)));
    };
    add(0, _mm256_unpacklo_pd(_mm256_castps_pd(a), _mm256_castps_pd(c)));
    add(1, _mm256_unpackhi_pd(_mm256_castps_pd(a), _mm256_castps_pd(c)));
    add(2, _mm256_unpacklo_pd(_mm256_castps_pd(b), _mm256_castps_pd(d)));
    add(3, _mm256_unpackhi_pd(_mm256_castps_pd(b), _mm256_castps_pd(d)));
}

template <int n_rows>
void add_rows(const column_pair & c, const float (*weights)[KEYS], float * out, int64_t ld) {
    for (int half = 0; half < 2; half++) {
        __m256 sums[n_rows][4];
        if constexpr (n_rows <= 2) {
            add_bytes<n_rows, 0, 4>(c, weights, half, sums);
        } else {
            add_bytes<n_rows, 0, 2>(c, weights, half, sums);
            add_bytes<n_rows, 2, 2>(c, weights, half, sums);
        }
        for (int m = 0; m < n_rows; m++) {
            add_in_order(sums[m], out + m*ld + half*16);
        }
    }
}

template <class codec>
void add_values(int n_rows, const float * weights, const kvarn_fa_cached & values, int64_t dv, int64_t ld, float * out) {
    column_pair c;
    for (int g = 0; g < dv/GROUP; g += 2) {
        c.take<codec>(n_rows, weights, values, g);
        for (int row = 0; row < n_rows; row += 4) {
            float * to = out + row*ld + g*GROUP;
            switch (std::min(4, n_rows - row)) {
                case 4: add_rows<4>(c, c.weights + row, to, ld); break;
                case 3: add_rows<3>(c, c.weights + row, to, ld); break;
                case 2: add_rows<2>(c, c.weights + row, to, ld); break;
                case 1: add_rows<1>(c, c.weights + row, to, ld); break;
            }
        }
    }
}

using add_values_t = void (*)(int n_rows, const float * weights, const kvarn_fa_cached & values, int64_t dv, int64_t ld, float * out);

// Types whose pairs of groups have one scale.
add_values_t add_values_of(ggml_type type) {
    switch (type) {
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
    return n_rows < KVARN_FA_FEW_ROWS && add_values_of(type) && dv % (2*GROUP) == 0;
}

void kvarn_fa_add_few_values(int n_rows, const float * weights, const kvarn_fa_cached & values, int64_t dv, int64_t ld, float * out) {
    add_values_of(values.type)(n_rows, weights, values, dv, ld, out);
}

#endif
