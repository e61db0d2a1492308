// AVX2 and up; see kvarn-kv-groups.h.

#pragma once

typedef __m256i levels_t;
typedef __m256  sums_t;

#define SUMS_ZERO               _mm256_setzero_ps()
#define SUMS_ADD(a, b)          _mm256_add_ps(a, b)
#define SUMS_SCALE_ADD(a, b, d) _mm256_add_ps(a, _mm256_mul_ps(b, _mm256_set1_ps(d)))

// 16 levels in both halves, for a byte shuffle within 128-bit lanes
static inline __m256i sixteen(const int8_t * levels) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *) levels));
}

// one byte each: the low nibbles, then the high ones
static inline __m256i nibbles(__m128i bytes) {
    return _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(bytes, 4), bytes), _mm256_set1_epi8(15));
}

// one byte each: the two low bits of 32 symbols
static inline __m256i pairs(const uint8_t * qs) {
    int64_t bits;
    memcpy(&bits, qs, 8);
    const __m256i shifted = _mm256_srlv_epi64(_mm256_set1_epi64x(bits), _mm256_set_epi64x(6, 4, 2, 0));
    return _mm256_and_si256(shifted, _mm256_set1_epi8(3));
}

// one byte each: value where a bit is set, else 0
static inline __m256i spread(uint32_t bits, int8_t value) {
#if defined(__AVX512BW__) && defined(__AVX512VL__)
    return _mm256_maskz_set1_epi8((__mmask32) bits, value);
#else
    const __m256i bytes = _mm256_shuffle_epi8(_mm256_set1_epi32((int32_t) bits),
            _mm256_set_epi64x(0x0303030303030303, 0x0202020202020202, 0x0101010101010101, 0));
    const __m256i bit   = _mm256_set1_epi64x(0x8040201008040201);
    return _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit), bit), _mm256_set1_epi8(value));
#endif
}

static inline __m256i tbq4_group(const uint8_t * qs) {
    return _mm256_shuffle_epi8(sixteen(tbq4_levels), nibbles(_mm_loadu_si128((const __m128i *) qs)));
}

static inline __m256i planar3_group(const uint8_t * qs, const uint8_t * qh) {
    return _mm256_shuffle_epi8(sixteen(planar3_levels), _mm256_or_si256(pairs(qs), spread(bits_at(qh), 4)));
}

// The bytes of a group are two rings, one in the low nibbles and one in the high ones: the symbols before are the bytes before.
#if defined(__AVX512VBMI__) && defined(__AVX512VL__)
// The fifth bit of an index is the top bit of the symbol before; nobody looks at those above.
static inline __m256i tcq4_group(const uint8_t * qs) {
    const __m256i c  = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *) qs));
    const __m256i c1 = _mm256_alignr_epi8(c, c, 15);
    const __m256i c2 = _mm256_alignr_epi8(c, c, 14);
    const __m256i x     = _mm256_ternarylogic_epi32(c, c2, _mm256_set1_epi8((char) 0x88), 0x78); // c ^ (c2 & top)
    const __m256i four  = _mm256_srlv_epi32(x,  _mm256_setr_epi32(0, 0, 0, 0,  4,  4,  4,  4));
    const __m256i fifth = _mm256_rolv_epi32(c1, _mm256_setr_epi32(1, 1, 1, 1, 29, 29, 29, 29));
    const __m256i index = _mm256_ternarylogic_epi32(_mm256_set1_epi8(15), four, fifth, 0xca);
    return _mm256_permutexvar_epi8(index, _mm256_loadu_si256((const __m256i *) tcq4_levels));
}
#else
static inline __m256i tcq4_group(const uint8_t * qs) {
    const __m128i c  = _mm_loadu_si128((const __m128i *) qs);
    const __m128i c1 = _mm_alignr_epi8(c, c, 15);
    const __m128i c2 = _mm_alignr_epi8(c, c, 14);
    const __m256i index = nibbles(_mm_xor_si128(c, _mm_and_si128(c2, _mm_set1_epi8((char) 0x88))));
    const __m256i e     = _mm256_set_m128i(c1, _mm_slli_epi16(c1, 4)); // in the top bit of each byte
    return _mm256_blendv_epi8(_mm256_shuffle_epi8(sixteen(tcq4_levels), index), _mm256_shuffle_epi8(sixteen(tcq4_levels + 16), index), e);
}
#endif

static inline __m256i tcq3_group(const uint8_t * qs, const uint8_t * qh) {
    const uint32_t u = bits_at(qh);
    const __m256i  index = _mm256_or_si256(pairs(qs), _mm256_or_si256(spread(u ^ rotated(u, 2), 4), spread(rotated(u, 1), 8)));
    return _mm256_shuffle_epi8(sixteen(tcq3_levels), index);
}

// 8 partial sums of x[i]*y[i]; no level is -128, so moving x's sign to y is exact
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
#if defined(__AVX512F__)
    for (int i = 0; i < 2; ++i) {
        _mm512_storeu_ps(y + 16*i, _mm512_mul_ps(_mm512_set1_ps(d), _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(half[i]))));
    }
#else
    for (int i = 0; i < 4; ++i) {
        const __m256i eight = _mm256_cvtepi8_epi32(i % 2 ? _mm_unpackhi_epi64(half[i/2], half[i/2]) : half[i/2]);
        _mm256_storeu_ps(y + 8*i, _mm256_mul_ps(_mm256_cvtepi32_ps(eight), _mm256_set1_ps(d)));
    }
#endif
}
