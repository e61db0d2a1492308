// The 32 values of a group as unscaled levels in f32, straight from their codes: a table in a register has the levels.
// AVX-512 only. Included after ggml-cpu-impl.h.

#pragma once

#include "kvarn-flash-attn-layout.h"

#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace kvarn_fa {

struct levels32 {
    __m512 low;   // values 0 .. 15
    __m512 high;  // values 16 .. 31
};

static inline __m512 floats_of(const int8_t * levels) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *) levels)));
}

// A codec gives the levels of group g of a row. A look-up in 16 levels takes the low four bits of a lane, whatever is above them.
struct byte_levels : q8_0_layout {
    static levels32 of(const char * row, int g) {
        const int8_t * levels = (const int8_t *) row + codes_at(g);
        return { floats_of(levels), floats_of(levels + 16) };
    }
};

template <class at, class book>
struct nibble_levels : at {
    static levels32 of(const char * row, int g) {
        const __m512i bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *) (row + at::codes_at(g))));
        const __m512  table = floats_of(book::table);
        return { _mm512_permutexvar_ps(bytes, table), _mm512_permutexvar_ps(_mm512_srli_epi32(bytes, 4), table) };
    }
};

// Two rings, in the low and in the high nibbles: the symbols before are the bytes before.
template <class at>
struct trellis_nibble_levels : at {
    static levels32 of(const char * row, int g) {
        const __m128i c     = _mm_loadu_si128((const __m128i *) (row + at::codes_at(g)));
        const __m128i c1    = _mm_alignr_epi8(c, c, 15);
        const __m128i c2    = _mm_alignr_epi8(c, c, 14);
        const __m128i x     = _mm_ternarylogic_epi32(c, c2, _mm_set1_epi8((char) 0x88), 0x78);  // c ^ (c2 & top)
        const __m512i index = _mm512_cvtepu8_epi32(x);
        return { look_up(index, _mm_test_epi8_mask(c1, _mm_set1_epi8(0x08))), look_up(_mm512_srli_epi32(index, 4), _mm_movepi8_mask(c1)) };
    }

    static __m512 look_up(__m512i index, __mmask16 e) {
        const __m512 zero = floats_of(tcq4_levels::table);
        const __m512 one  = floats_of(tcq4_levels::table + 16);
        return _mm512_mask_permutexvar_ps(_mm512_permutexvar_ps(index, zero), e, index, one);
    }
};

// The two low bits of a group's symbols: 8 bytes with value j in byte j % 8, at bit 2 * (j / 8).
struct two_bits {
    __m512i low, high;

    explicit two_bits(const char * codes) {
        int64_t bits;
        memcpy(&bits, codes, sizeof(bits));
        const __m512i bytes = _mm512_cvtepu8_epi32(_mm_set1_epi64x(bits));
        low  = _mm512_srlv_epi32(bytes, eights(0, 2));
        high = _mm512_srlv_epi32(bytes, eights(4, 6));
    }

    static __m512i eights(int a, int b) {
        return _mm512_inserti64x4(_mm512_set1_epi32(a), _mm256_set1_epi32(b), 1);
    }
};

static inline uint32_t plane_of(const char * bits) {
    uint32_t plane;
    memcpy(&plane, bits, sizeof(plane));
    return plane;
}

template <class at>
struct planar_levels : at {
    static levels32 of(const char * row, int g) {
        const two_bits codes(row + at::codes_at(g));
        const uint32_t plane = plane_of(row + at::high_at(g));
        return { look_up(codes.low, (__mmask16) plane), look_up(codes.high, (__mmask16) (plane >> 16)) };
    }

    static __m512 look_up(__m512i index, __mmask16 upper) {
        return _mm512_mask_permutexvar_ps(_mm512_permutexvar_ps(index, four(0)), upper, index, four(4));
    }

    // four levels four times over: there two bits choose
    static __m512 four(int first) {
        int32_t levels;
        memcpy(&levels, planar3_levels::table + first, sizeof(levels));
        return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_set1_epi32(levels)));
    }
};

// One ring: the bits before are those of the plane, rotated.
template <class at>
struct trellis_planar_levels : at {
    static levels32 of(const char * row, int g) {
        const two_bits codes(row + at::codes_at(g));
        const uint32_t plane = plane_of(row + at::high_at(g));
        const uint32_t w     = plane ^ (plane << 2 | plane >> 30);
        const uint32_t e     = plane << 1 | plane >> 31;
        return { look_up(codes.low, (__mmask16) w, (__mmask16) e), look_up(codes.high, (__mmask16) (w >> 16), (__mmask16) (e >> 16)) };
    }

    static __m512 look_up(__m512i bits, __mmask16 w, __mmask16 e) {
        __m512i index = _mm512_and_si512(bits, _mm512_set1_epi32(3));
        index = _mm512_mask_or_epi32(index, w, index, _mm512_set1_epi32(4));
        index = _mm512_mask_or_epi32(index, e, index, _mm512_set1_epi32(8));
        return _mm512_permutexvar_ps(index, floats_of(tcq3_levels::table));
    }
};

} // namespace kvarn_fa
