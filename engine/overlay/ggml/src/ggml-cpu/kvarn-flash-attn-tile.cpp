#include "kvarn-flash-attn-tile.h"

#define GGML_COMMON_DECL_CPP
#include "ggml-common.h"

#include "ggml-cpu-impl.h"
#include "ggml-cpu.h"
#include "ggml-impl.h"
#include "simd-mappings.h"

#include <cstring>

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512VNNI__)
#define KVARN_FA_PACKED
#endif

// ---------------------------------------------------------------------------------------------------------------------
// C[m][n] += A[m][k] * B[k][n], n a multiple of 16

#if defined(GGML_SIMD) && !defined(__ARM_FEATURE_SVE) && !defined(__riscv_v_intrinsic)

// Registers: RM * RN accumulators, RN columns of B, one broadcast of A.
#if defined(__AVX512F__)
constexpr int RM = 6, RN = 4;
#elif defined(__AVX__)
constexpr int RM = 6, RN = 2;
#else
constexpr int RM = 4, RN = 4;
#endif

template <int rm, int rn>
static void multiply_block(float * C, int64_t ldc, const float * A, int64_t lda, const float * B, int64_t ldb, int k) {
    GGML_F32_VEC acc[rm][rn];
    for (int i = 0; i < rm; i++) {
        for (int j = 0; j < rn; j++) {
            acc[i][j] = GGML_F32_VEC_LOAD(C + i*ldc + j*GGML_F32_EPR);
        }
    }
    for (int kk = 0; kk < k; kk++) {
        GGML_F32_VEC b[rn];
        for (int j = 0; j < rn; j++) {
            b[j] = GGML_F32_VEC_LOAD(B + kk*ldb + j*GGML_F32_EPR);
        }
        for (int i = 0; i < rm; i++) {
            const GGML_F32_VEC a = GGML_F32_VEC_SET1(A[i*lda + kk]);
            for (int j = 0; j < rn; j++) {
                acc[i][j] = GGML_F32_VEC_FMA(acc[i][j], b[j], a);
            }
        }
    }
    for (int i = 0; i < rm; i++) {
        for (int j = 0; j < rn; j++) {
            GGML_F32_VEC_STORE(C + i*ldc + j*GGML_F32_EPR, acc[i][j]);
        }
    }
}

template <int rm>
static void multiply_rows(float * C, int64_t ldc, const float * A, int64_t lda, const float * B, int64_t ldb, int k, int64_t n) {
    int64_t j = 0;
    for (; j + RN*GGML_F32_EPR <= n; j += RN*GGML_F32_EPR) {
        multiply_block<rm, RN>(C + j, ldc, A, lda, B + j, ldb, k);
    }
    for (; j < n; j += GGML_F32_EPR) {
        multiply_block<rm, 1>(C + j, ldc, A, lda, B + j, ldb, k);
    }
}

static void multiply(float * C, int64_t ldc, const float * A, int64_t lda, const float * B, int64_t ldb, int m, int k, int64_t n) {
    int i = 0;
    for (; i + RM <= m; i += RM) {
        multiply_rows<RM>(C + i*ldc, ldc, A + i*lda, lda, B, ldb, k, n);
    }
    C += i*ldc;
    A += i*lda;
    switch (m - i) {
        case 5: multiply_rows<5>(C, ldc, A, lda, B, ldb, k, n); break;
        case 4: multiply_rows<4>(C, ldc, A, lda, B, ldb, k, n); break;
        case 3: multiply_rows<3>(C, ldc, A, lda, B, ldb, k, n); break;
        case 2: multiply_rows<2>(C, ldc, A, lda, B, ldb, k, n); break;
        case 1: multiply_rows<1>(C, ldc, A, lda, B, ldb, k, n); break;
        default: break;
    }
}

#else

static void multiply(float * C, int64_t ldc, const float * A, int64_t lda, const float * B, int64_t ldb, int m, int k, int64_t n) {
    for (int i = 0; i < m; i++) {
        for (int kk = 0; kk < k; kk++) {
            const float a = A[i*lda + kk];
            for (int64_t j = 0; j < n; j++) {
                C[i*ldc + j] += a*B[kk*ldb + j];
            }
        }
    }
}

#endif

// ---------------------------------------------------------------------------------------------------------------------
// a cached row as f32
//
// The loops are plain on purpose: this file is compiled for the machine it runs on (ggml's type traits, in ggml-base, are
// not), and the compiler makes vector code of them.

static void unpack_q8_0(const block_q8_0 * x, float * y, int64_t n) {
    for (int64_t b = 0; b < n/QK8_0; b++) {
        const float d = GGML_CPU_FP16_TO_FP32(x[b].d);
        for (int j = 0; j < QK8_0; j++) {
            y[b*QK8_0 + j] = d*x[b].qs[j];
        }
    }
}

static void unpack_q4_0(const block_q4_0 * x, float * y, int64_t n) {
    for (int64_t b = 0; b < n/QK4_0; b++) {
        const float d = GGML_CPU_FP16_TO_FP32(x[b].d);
        for (int j = 0; j < QK4_0/2; j++) {
            y[b*QK4_0 + j]           = d*((x[b].qs[j] & 0x0F) - 8);
            y[b*QK4_0 + j + QK4_0/2] = d*((x[b].qs[j] >>   4) - 8);
        }
    }
}

static void unpack(ggml_type type, const void * x, float * y, int64_t n) {
    switch (type) {
        case GGML_TYPE_F32:  memcpy(y, x, n*sizeof(float)); break;
        case GGML_TYPE_F16:  ggml_cpu_fp16_to_fp32((const ggml_fp16_t *) x, y, n); break;
        case GGML_TYPE_BF16: ggml_cpu_bf16_to_fp32((const ggml_bf16_t *) x, y, n); break;
        case GGML_TYPE_Q8_0: unpack_q8_0((const block_q8_0 *) x, y, n); break;
        case GGML_TYPE_Q4_0: unpack_q4_0((const block_q4_0 *) x, y, n); break;
        default:             ggml_get_type_traits(type)->to_float(x, y, n); break;
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// packed keys: 16 keys in the 16 lanes, 4 values of each per 32-bit lane, so one dpbusd serves 64 products and the sum over
// the head size needs no step across lanes

#ifdef KVARN_FA_PACKED

constexpr int GROUP = 32;  // values under one scale

// Row layout of kvarn_fa_queries::memory: dk int8, then per group a float scale and an int32 sum of its int8.
static size_t packed_row_bytes(int64_t dk) {
    return dk + dk/GROUP*(sizeof(float) + sizeof(int32_t));
}

// Transposes 16 bytes of each of 16 rows: out[j] lane r = bytes 4j .. 4j+3 of rows[r] + offset.
static inline void load_16x16(const char * const * rows, size_t offset, __m512i * out) {
    __m512i a[4];
    for (int k = 0; k < 4; k++) {
        a[k] = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *) (rows[k] + offset)));
        a[k] = _mm512_inserti32x4(a[k], _mm_loadu_si128((const __m128i *) (rows[k +  4] + offset)), 1);
        a[k] = _mm512_inserti32x4(a[k], _mm_loadu_si128((const __m128i *) (rows[k +  8] + offset)), 2);
        a[k] = _mm512_inserti32x4(a[k], _mm_loadu_si128((const __m128i *) (rows[k + 12] + offset)), 3);
    }
    const __m512i lo01 = _mm512_unpacklo_epi32(a[0], a[1]);
    const __m512i hi01 = _mm512_unpackhi_epi32(a[0], a[1]);
    const __m512i lo23 = _mm512_unpacklo_epi32(a[2], a[3]);
    const __m512i hi23 = _mm512_unpackhi_epi32(a[2], a[3]);
    out[0] = _mm512_unpacklo_epi64(lo01, lo23);
    out[1] = _mm512_unpackhi_epi64(lo01, lo23);
    out[2] = _mm512_unpacklo_epi64(hi01, hi23);
    out[3] = _mm512_unpackhi_epi64(hi01, hi23);
}

// A codec says where group g of a row lies and gives its 32 values as unsigned bytes, bias above their true value.
struct codec_q8_0 {
    static constexpr int bias = 128;
    static size_t scale_offset(int g) { return g*sizeof(block_q8_0); }

    static void load(const char * const * rows, int g, __m512i * u) {
        const size_t offset = g*sizeof(block_q8_0) + offsetof(block_q8_0, qs);
        load_16x16(rows, offset,      u);
        load_16x16(rows, offset + 16, u + 4);
        for (int j = 0; j < 8; j++) {
            u[j] = _mm512_xor_si512(u[j], _mm512_set1_epi8((char) 0x80));
        }
    }
};

struct codec_q4_0 {
    static constexpr int bias = 8;
    static size_t scale_offset(int g) { return g*sizeof(block_q4_0); }

    static void load(const char * const * rows, int g, __m512i * u) {
        const __m512i nibble = _mm512_set1_epi8(0x0F);
        load_16x16(rows, g*sizeof(block_q4_0) + offsetof(block_q4_0, qs), u);
        for (int j = 0; j < 4; j++) {
            u[j + 4] = _mm512_and_si512(_mm512_srli_epi16(u[j], 4), nibble);
            u[j]     = _mm512_and_si512(u[j], nibble);
        }
    }
};

template <class codec>
static void packed_scores_16(const kvarn_fa_queries & queries, const char * const * rows, __m512i row_offset, float * scores) {
    const int    n_groups  = queries.dk/GROUP;
    const size_t row_bytes = packed_row_bytes(queries.dk);
    for (int g = 0; g < n_groups; g++) {
        __m512i u[8];
        codec::load(rows, g, u);
        // the two bytes behind a scale belong to the same block
        const __m512i d16 = _mm512_i32gather_epi32(row_offset, rows[0] + codec::scale_offset(g), 1);
        const __m512  d   = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(d16));
        for (int m = 0; m < queries.n_rows; m++) {
            const char * q    = queries.memory + m*row_bytes;
            const char * side = q + queries.dk + g*(sizeof(float) + sizeof(int32_t));
            int32_t q4[8];
            int32_t sum;
            float   dq;
            memcpy(q4,   q + g*GROUP,          sizeof(q4));
            memcpy(&dq,  side,                 sizeof(dq));
            memcpy(&sum, side + sizeof(float), sizeof(sum));
            __m512i acc = _mm512_set1_epi32(-codec::bias*sum);
            for (int j = 0; j < 8; j++) {
                acc = _mm512_dpbusd_epi32(acc, u[j], _mm512_set1_epi32(q4[j]));
            }
            float * s = scores + m*KVARN_FA_KEYS;
            const __m512 part = _mm512_mul_ps(_mm512_cvtepi32_ps(acc), _mm512_set1_ps(dq));
            _mm512_storeu_ps(s, g == 0 ? _mm512_mul_ps(part, d) : _mm512_fmadd_ps(part, d, _mm512_loadu_ps(s)));
        }
    }
}

template <class codec>
static void packed_scores(const kvarn_fa_queries & queries, const kvarn_fa_cached & keys, float * scores) {
    for (int first = 0; first < keys.n; first += 16) {
        const char * rows[16];
        alignas(64) int32_t offset[16];
        for (int r = 0; r < 16; r++) {
            // past the end the last row stands in; nobody reads those scores
            const size_t at = (size_t) MIN(r, keys.n - 1 - first)*keys.stride;
            rows[r]   = keys.data + first*keys.stride + at;
            offset[r] = (int32_t) at;
        }
        packed_scores_16<codec>(queries, rows, _mm512_load_si512(offset), scores + first);
    }
}

static bool has_packed(ggml_type type) {
    return type == GGML_TYPE_Q8_0 || type == GGML_TYPE_Q4_0;
}

static void put_packed(const kvarn_fa_queries & queries, int row, const float * values) {
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

#endif // KVARN_FA_PACKED

// ---------------------------------------------------------------------------------------------------------------------

size_t kvarn_fa_query_bytes(int64_t dk) {
    return KVARN_FA_ROWS*dk*sizeof(float);  // f32 is the largest of the three forms
}

size_t kvarn_fa_score_bytes(int64_t dk) {
    return (KVARN_FA_KEYS + 1)*dk*sizeof(float);  // a transposed tile of keys and one row
}

kvarn_fa_queries::kind_t kvarn_fa_query_kind(ggml_type key_type, int n_rows, int64_t dk) {
#ifdef KVARN_FA_PACKED
    if (has_packed(key_type) && dk % GROUP == 0) {
        return kvarn_fa_queries::PACKED;
    }
#endif
    GGML_UNUSED(dk);
    // Below this many rows, unpacking and transposing a key costs more than it saves.
    constexpr int few_rows = 8;
    const ggml_type_traits_cpu * traits = ggml_get_type_traits_cpu(key_type);
    return n_rows < few_rows && traits->vec_dot ? kvarn_fa_queries::DOTTED : kvarn_fa_queries::PLAIN;
}

void kvarn_fa_put_query(const kvarn_fa_queries & queries, ggml_type key_type, int row, const float * values) {
    switch (queries.kind) {
        case kvarn_fa_queries::PACKED:
#ifdef KVARN_FA_PACKED
            put_packed(queries, row, values);
#endif
            break;
        case kvarn_fa_queries::DOTTED: {
            const ggml_type to = ggml_get_type_traits_cpu(key_type)->vec_dot_type;
            char * q = queries.memory + row*queries.dk*sizeof(float);
            if (to == GGML_TYPE_F32) {
                memcpy(q, values, queries.dk*sizeof(float));
            } else {
                ggml_get_type_traits_cpu(to)->from_float(values, q, queries.dk);
            }
        } break;
        case kvarn_fa_queries::PLAIN:
            memcpy(queries.memory + row*queries.dk*sizeof(float), values, queries.dk*sizeof(float));
            break;
    }
}

static void dotted_scores(const kvarn_fa_queries & queries, const kvarn_fa_cached & keys, float * scores) {
    const ggml_vec_dot_t dot = ggml_get_type_traits_cpu(keys.type)->vec_dot;
    for (int key = 0; key < keys.n; key++) {
        for (int m = 0; m < queries.n_rows; m++) {
            const char * q = queries.memory + m*queries.dk*sizeof(float);
            dot(queries.dk, scores + m*KVARN_FA_KEYS + key, 0, keys.data + key*keys.stride, 0, q, 0, 1);
        }
    }
}

static void plain_scores(const kvarn_fa_queries & queries, const kvarn_fa_cached & keys, float * scratch, float * scores) {
    const int dk = queries.dk;
    float * row = scratch + KVARN_FA_KEYS*dk;
    if (keys.n < KVARN_FA_KEYS) {
        memset(scratch, 0, KVARN_FA_KEYS*dk*sizeof(float));
    }
    for (int key = 0; key < keys.n; key++) {
        unpack(keys.type, keys.data + key*keys.stride, row, dk);
        for (int d = 0; d < dk; d++) {
            scratch[d*KVARN_FA_KEYS + key] = row[d];
        }
    }
    memset(scores, 0, queries.n_rows*KVARN_FA_KEYS*sizeof(float));
    multiply(scores, KVARN_FA_KEYS, (const float *) queries.memory, dk, scratch, KVARN_FA_KEYS, queries.n_rows, dk, KVARN_FA_KEYS);
}

void kvarn_fa_scores(const kvarn_fa_queries & queries, const kvarn_fa_cached & keys, float * scratch, float * scores) {
    switch (queries.kind) {
        case kvarn_fa_queries::PACKED:
#ifdef KVARN_FA_PACKED
            switch (keys.type) {
                case GGML_TYPE_Q8_0: packed_scores<codec_q8_0>(queries, keys, scores); break;
                case GGML_TYPE_Q4_0: packed_scores<codec_q4_0>(queries, keys, scores); break;
                default: GGML_ABORT("no packed keys of this type");
            }
#endif
            break;
        case kvarn_fa_queries::DOTTED: dotted_scores(queries, keys, scores); break;
        case kvarn_fa_queries::PLAIN:  plain_scores(queries, keys, scratch, scores); break;
    }
}

void kvarn_fa_add_values(int n_rows, const float * weights, const kvarn_fa_cached & values, int64_t dv, int64_t ld, float * unpacked, float * out) {
    // A step of values stays in the first-level cache between unpacking and use.
    const int step = ld <= 128 ? KVARN_FA_KEYS : KVARN_FA_KEYS/4;
    for (int first = 0; first < values.n; first += step) {
        const int n = MIN(step, values.n - first);
        for (int key = 0; key < n; key++) {
            unpack(values.type, values.data + (first + key)*values.stride, unpacked + key*ld, dv);
        }
        multiply(out, ld, weights + first, KVARN_FA_KEYS, unpacked, ld, n_rows, n, ld);
    }
}
