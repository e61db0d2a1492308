#include "kvarn-flash-attn-tile.h"

#define GGML_COMMON_DECL_CPP
#include "ggml-common.h"
#include "kvarn-kv-types.h"

#include "ggml-cpu-impl.h"
#include "ggml-cpu.h"
#include "ggml-impl.h"
#include "simd-mappings.h"

#include <cstring>

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512VNNI__)
#define KVARN_FA_PACKED
#endif

// ---------------------------------------------------------------------------------------------------------------------
// where the 32 values of group g lie in a row of blocks that begin with an fp16 scale

constexpr int GROUP = 32;

template <class block, int block_values>
struct layout {
    static size_t block_at(int g) { return g*GROUP/block_values*sizeof(block); }
    static int    in_block(int g) { return g % (block_values/GROUP); }
};

struct q8_0_layout : layout<block_q8_0, QK8_0> {
    static size_t codes_at(int g) { return block_at(g) + offsetof(block_q8_0, qs); }
};

// 16 bytes: the low nibbles of all, then the high nibbles
template <class block, int block_values>
struct nibble_layout : layout<block, block_values> {
    static size_t codes_at(int g) {
        return layout<block, block_values>::block_at(g) + offsetof(block, qs) + layout<block, block_values>::in_block(g)*16;
    }
};

// 8 bytes of two low bits, 4 bytes of one high bit; see kvarn-kv-types.h
template <class block, int block_values>
struct planar_layout : layout<block, block_values> {
    static size_t codes_at(int g) {
        return layout<block, block_values>::block_at(g) + offsetof(block, qs) + layout<block, block_values>::in_block(g)*8;
    }
    static size_t high_at(int g) {
        return layout<block, block_values>::block_at(g) + offsetof(block, qh) + layout<block, block_values>::in_block(g)*4;
    }
};

using q4_0_layout         = nibble_layout<block_q4_0, QK4_0>;
using iq4_nl_layout       = nibble_layout<block_iq4_nl, QK4_NL>;
using tbq4_0_layout       = nibble_layout<block_kvarn_tbq4_0, KVARN_QK>;
using tbq4_0_64_layout    = nibble_layout<block_kvarn_tbq4_0_64, KVARN_QK_64>;
using planar3_0_layout    = planar_layout<block_kvarn_planar3_0, KVARN_QK>;
using planar3_0_64_layout = planar_layout<block_kvarn_planar3_0_64, KVARN_QK_64>;

// Levels of a code. Sixteen entries, so that a byte shuffle can look them up.
struct q4_0_levels    { static constexpr int8_t table[16] = { -8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7 }; };
struct iq4_nl_levels  { static constexpr int8_t table[16] = { -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113 }; };
struct tbq4_levels    { static constexpr int8_t table[16] = KVARN_TBQ4_LEVELS; };
struct planar3_levels { static constexpr int8_t table[16] = KVARN_PLANAR3_LEVELS; };

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
// This file is compiled for the machine it runs on, ggml's type traits (in ggml-base) are not: hence unpacking of our own for
// the types a cache is likely to have. The plain loops are made into vector code by the compiler.

static inline float scale_at(const char * block) {
    ggml_fp16_t d;
    memcpy(&d, block, sizeof(d));
    return GGML_CPU_FP16_TO_FP32(d);
}

static void unpack_bytes(const char * row, float * y, int64_t n) {
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

static inline void put_planes(const char * low, const char * high, const int8_t * table, float d, float * y) {
    int32_t mask;
    memcpy(&mask, high, sizeof(mask));
    const __m128i x     = _mm_loadl_epi64((const __m128i *) low);
    const __m128i pairs = _mm_unpacklo_epi64(x, _mm_srli_epi16(x, 2));
    const __m128i bit   = _mm_set1_epi64x((long long) 0x8040201008040201ull);
    for (int half = 0; half < 2; half++) {
        const __m128i from  = _mm_set_epi64x(0x0101010101010101ll*(2*half + 1), 0x0101010101010101ll*(2*half));
        const __m128i low2  = _mm_and_si128(half == 0 ? pairs : _mm_srli_epi16(pairs, 4), _mm_set1_epi8(3));
        const __m128i bytes = _mm_shuffle_epi8(_mm_cvtsi32_si128(mask), from);
        const __m128i is_on = _mm_cmpeq_epi8(_mm_and_si128(bytes, bit), bit);
        put_levels(table, _mm_or_si128(low2, _mm_and_si128(is_on, _mm_set1_epi8(4))), d, y + 16*half);
    }
}

#else

static inline void put_nibbles(const char * codes, const int8_t * table, float d, float * y) {
    for (int j = 0; j < 16; j++) {
        y[j]      = d*table[codes[j] & 0x0F];
        y[j + 16] = d*table[(uint8_t) codes[j] >> 4];
    }
}

static inline void put_planes(const char * low, const char * high, const int8_t * table, float d, float * y) {
    for (int j = 0; j < GROUP; j++) {
        const int low2 = ((uint8_t) low[j % 8] >> (2*(j/8))) & 3;
        const int bit  = ((uint8_t) high[j/8] >> (j % 8)) & 1;
        y[j] = d*table[low2 | bit << 2];
    }
}

#endif

template <class at, class levels>
static void unpack_nibbles(const char * row, float * y, int64_t n) {
    for (int g = 0; g < n/GROUP; g++) {
        put_nibbles(row + at::codes_at(g), levels::table, scale_at(row + at::block_at(g)), y + g*GROUP);
    }
}

template <class at>
static void unpack_planes(const char * row, float * y, int64_t n) {
    for (int g = 0; g < n/GROUP; g++) {
        put_planes(row + at::codes_at(g), row + at::high_at(g), planar3_levels::table, scale_at(row + at::block_at(g)), y + g*GROUP);
    }
}

static void unpack(ggml_type type, const char * x, float * y, int64_t n) {
    switch (type) {
        case GGML_TYPE_F32:                memcpy(y, x, n*sizeof(float)); break;
        case GGML_TYPE_F16:                ggml_cpu_fp16_to_fp32((const ggml_fp16_t *) x, y, n); break;
        case GGML_TYPE_BF16:               ggml_cpu_bf16_to_fp32((const ggml_bf16_t *) x, y, n); break;
        case GGML_TYPE_Q8_0:               unpack_bytes(x, y, n); break;
        case GGML_TYPE_Q4_0:               unpack_nibbles<q4_0_layout,      q4_0_levels>(x, y, n); break;
        case GGML_TYPE_IQ4_NL:             unpack_nibbles<iq4_nl_layout,    iq4_nl_levels>(x, y, n); break;
        case GGML_TYPE_KVARN_TBQ4_0:       unpack_nibbles<tbq4_0_layout,    tbq4_levels>(x, y, n); break;
        case GGML_TYPE_KVARN_TBQ4_0_64:    unpack_nibbles<tbq4_0_64_layout, tbq4_levels>(x, y, n); break;
        case GGML_TYPE_KVARN_PLANAR3_0:    unpack_planes<planar3_0_layout>(x, y, n); break;
        case GGML_TYPE_KVARN_PLANAR3_0_64: unpack_planes<planar3_0_64_layout>(x, y, n); break;
        default:                           ggml_get_type_traits(type)->to_float(x, y, n); break;
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// packed keys: 16 keys in the 16 lanes, 4 values of each per 32-bit lane, so one dpbusd serves 64 products and the sum over
// the head size needs no step across lanes

#ifdef KVARN_FA_PACKED

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

// 16 keys of one KV head: where each begins, and its distance from the first in bytes.
struct sixteen_rows {
    const char * begin[16];
    __m512i      distance;

    // A 32-bit number of each row. Reads past its own field stay inside the block.
    __m512i gather(size_t offset) const { return _mm512_i32gather_epi32(distance, begin[0] + offset, 1); }
    __m512  scales(size_t offset) const { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(gather(offset))); }
};

// A codec gives the 32 values of group g of each row as unsigned bytes, bias above their true value:
// byte i of lane r of u[j] is value 4*j + i of row r.
struct byte_codec : q8_0_layout {
    static constexpr int bias = 128;

    static void load(const sixteen_rows & rows, int g, __m512i * u) {
        load_16x16(rows.begin, codes_at(g),      u);
        load_16x16(rows.begin, codes_at(g) + 16, u + 4);
        for (int j = 0; j < 8; j++) {
            u[j] = _mm512_xor_si512(u[j], _mm512_set1_epi8((char) 0x80));
        }
    }
};

template <class at>
struct nibble_codec : at {
    static void load(const sixteen_rows & rows, int g, __m512i * u) {
        const __m512i nibble = _mm512_set1_epi8(0x0F);
        load_16x16(rows.begin, at::codes_at(g), u);
        for (int j = 0; j < 4; j++) {
            u[j + 4] = _mm512_and_si512(_mm512_srli_epi16(u[j], 4), nibble);
            u[j]     = _mm512_and_si512(u[j], nibble);
        }
    }
};

struct q4_0_codec : nibble_codec<q4_0_layout> {
    static constexpr int bias = 8;
};

// The levels as unsigned bytes, in each 128-bit lane.
static inline __m512i biased_levels(const int8_t * table) {
    return _mm512_xor_si512(_mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *) table)), _mm512_set1_epi8((char) 0x80));
}

template <class at, class levels>
struct level_codec : nibble_codec<at> {
    static constexpr int bias = 128;

    static void load(const sixteen_rows & rows, int g, __m512i * u) {
        const __m512i table = biased_levels(levels::table);
        nibble_codec<at>::load(rows, g, u);
        for (int j = 0; j < 8; j++) {
            u[j] = _mm512_shuffle_epi8(table, u[j]);
        }
    }
};

template <class at>
struct planar_codec : at {
    static constexpr int bias = 128;

    static void load(const sixteen_rows & rows, int g, __m512i * u) {
        const __m512i table  = biased_levels(planar3_levels::table);
        const __m512i low[2] = { rows.gather(at::codes_at(g)), rows.gather(at::codes_at(g) + 4) };
        const __m512i high   = rows.gather(at::high_at(g));
        const __m512i spread = _mm512_set4_epi32(0x0C0C0C0C, 0x08080808, 0x04040404, 0x00000000);  // byte 0 of each lane to all its bytes
        for (int j = 0; j < 8; j++) {
            const __m512i   low2  = _mm512_and_si512(_mm512_srli_epi16(low[j % 2], 2*(j/2)), _mm512_set1_epi8(3));
            const __m512i   bytes = _mm512_shuffle_epi8(high, _mm512_add_epi8(spread, _mm512_set1_epi8(j/2)));
            const __mmask64 is_on = _mm512_test_epi8_mask(bytes, _mm512_set1_epi32(j % 2 ? (int) 0x80402010 : 0x08040201));
            u[j] = _mm512_shuffle_epi8(table, _mm512_mask_add_epi8(low2, is_on, low2, _mm512_set1_epi8(4)));
        }
    }
};

template <class codec>
static void packed_scores_16(const kvarn_fa_queries & queries, const sixteen_rows & rows, float * scores) {
    const int    n_groups  = queries.dk/GROUP;
    const size_t row_bytes = packed_row_bytes(queries.dk);
    for (int g = 0; g < n_groups; g++) {
        __m512i u[8];
        codec::load(rows, g, u);
        const __m512 d = rows.scales(codec::block_at(g));
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
        sixteen_rows rows;
        alignas(64) int32_t distance[16];
        for (int r = 0; r < 16; r++) {
            // past the end the last row stands in; nobody reads those scores
            const size_t at = (size_t) MIN(r, keys.n - 1 - first)*keys.stride;
            rows.begin[r] = keys.data + first*keys.stride + at;
            distance[r]   = (int32_t) at;
        }
        rows.distance = _mm512_load_si512(distance);
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
        default:                           return nullptr;
    }
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
    if (packed_scores_of(key_type) && dk % GROUP == 0) {
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
            packed_scores_of(keys.type)(queries, keys, scores);
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
