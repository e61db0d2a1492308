// Unscaled levels of a cached row in f32, straight from its codes; where a codebook has them, a table in a register is looked up by
// lanes of 32 bits. AVX-512 F and BW. Included by kvarn-flash-attn-level-values.cpp alone.

#pragma once

#include "kvarn-flash-attn-layout.h"

#include <immintrin.h>

#include <cstdint>
#include <cstring>
#include <utility>

// Of its own: kvarn-flash-attn-pairs.h has other codecs by the same names.
namespace kvarn_fa::avx512 {

static inline __m512 floats_of(const int8_t * levels) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *) levels)));
}

// A codec gives the levels of n_groups groups from g on, which share a scale, in 2 * n_groups registers, and puts such sums in order.
// A look-up in 16 levels takes the low four bits of its lane, one in 32 levels the low five, whatever is above them.
struct one_group {
    static constexpr int n_groups = 1;

    static void put_in_order(__m512 *) {}
};

struct byte_codec : q8_0_layout, one_group {
    static void levels(const char * row, int g, __m512 * x) {
        const int8_t * codes = (const int8_t *) row + codes_at(g);
        x[0] = floats_of(codes);
        x[1] = floats_of(codes + 16);
    }
};

template <class at, class book>
struct nibble_codec : at, one_group {
    static void levels(const char * row, int g, __m512 * x) {
        const __m512i bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *) (row + at::codes_at(g))));
        const __m512  table = floats_of(book::table);
        x[0] = _mm512_permutexvar_ps(bytes, table);
        x[1] = _mm512_permutexvar_ps(_mm512_srli_epi32(bytes, 4), table);
    }
};

// 64 indices, a byte each. Each lane has four of them, so x[k] has those of bytes 4*i + k; order only matters to the sums.
struct two_groups {
    static constexpr int n_groups = 2;

    static __m512i byte_down(__m512i index, int k) { return _mm512_srli_epi32(index, 8*k); }

    // x[k] lane i = byte 4*i + k  ->  x[k] lane i = byte 16*k + i
    static void put_in_order(__m512 * x) {
        const __m512i low  = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
        const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
        const auto pairs_of = [&](const __m512i & half, int k) { return _mm512_castps_pd(_mm512_permutex2var_ps(x[k], half, x[k + 1])); };
        const __m512d a[2] = { pairs_of(low, 0), pairs_of(high, 0) };
        const __m512d b[2] = { pairs_of(low, 2), pairs_of(high, 2) };
        const __m512i first  = _mm512_setr_epi64(0,  8, 1,  9, 2, 10, 3, 11);
        const __m512i second = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
        for (int i = 0; i < 2; i++) {
            x[2*i]     = _mm512_castpd_ps(_mm512_permutex2var_pd(a[i], first,  b[i]));
            x[2*i + 1] = _mm512_castpd_ps(_mm512_permutex2var_pd(a[i], second, b[i]));
        }
    }
};

// 64 indices: the low nibbles of both groups' 32 bytes, then the high ones.
template <class at>
struct nibble_pairs : at, two_groups {
    static __m512i codes(const char * row, int g) {
        return _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *) (row + at::codes_at(g))));
    }

    static __m512i counts(int low, int high) { return _mm512_inserti64x4(_mm512_set1_epi32(low), _mm256_set1_epi32(high), 1); }

    // bytes 16 .. 31 are the low half of the second group
    static void put_in_order(__m512 * x) {
        two_groups::put_in_order(x);
        std::swap(x[1], x[2]);
    }
};

template <class at, class book>
struct level_pairs : nibble_pairs<at> {
    static void levels(const char * row, int g, __m512 * x) {
        const __m512i index = _mm512_srlv_epi32(nibble_pairs<at>::codes(row, g), nibble_pairs<at>::counts(0, 4));
        for (int k = 0; k < 4; k++) {
            x[k] = _mm512_permutexvar_ps(two_groups::byte_down(index, k), floats_of(book::table));
        }
    }
};

// Rings of 16 bytes: the symbols before are the bytes before. The fifth bit of an index is the top bit of the symbol before.
template <class at>
struct trellis_nibble_pairs : nibble_pairs<at> {
    static void levels(const char * row, int g, __m512 * x) {
        const __m512i c     = nibble_pairs<at>::codes(row, g);
        const __m512i c1    = _mm512_alignr_epi8(c, c, 15);
        const __m512i c2    = _mm512_alignr_epi8(c, c, 14);
        const __m512i four  = _mm512_srlv_epi32(_mm512_ternarylogic_epi32(c, c2, _mm512_set1_epi8((char) 0x88), 0x78),  // c ^ (c2 & top)
                nibble_pairs<at>::counts(0, 4));
        const __m512i fifth = _mm512_rolv_epi32(c1, nibble_pairs<at>::counts(1, 29));
        const __m512i index = _mm512_ternarylogic_epi32(_mm512_set1_epi8(15), four, fifth, 0xca);
        for (int k = 0; k < 4; k++) {
            x[k] = _mm512_permutex2var_ps(floats_of(tcq4_levels::table), two_groups::byte_down(index, k), floats_of(tcq4_levels::table + 16));
        }
    }
};

// 16 bytes of two low bits and 8 of the high one; bytes of an index are in the order of the values.
template <class at>
struct planar_pairs : at, two_groups {
    static __m512i low_bits(const char * row, int g) {
        const __m128i codes = _mm_loadu_si128((const __m128i *) (row + at::codes_at(g)));
        const __m512i each  = _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 0, 0, 0, 1, 1, 1, 1), _mm512_castsi128_si512(codes));
        return _mm512_and_si512(_mm512_srlv_epi64(each, _mm512_setr_epi64(0, 2, 4, 6, 0, 2, 4, 6)), _mm512_set1_epi8(3));
    }

    static __m512i add_bit(__m512i index, uint64_t plane, int8_t bit) {
        return _mm512_mask_add_epi8(index, (__mmask64) plane, index, _mm512_set1_epi8(bit));
    }

    static void look_up(__m512i index, const int8_t * table, __m512 * x) {
        for (int k = 0; k < 4; k++) {
            x[k] = _mm512_permutexvar_ps(two_groups::byte_down(index, k), floats_of(table));
        }
    }

    static void levels(const char * row, int g, __m512 * x) {
        uint64_t plane;
        memcpy(&plane, row + at::high_at(g), sizeof(plane));
        look_up(add_bit(low_bits(row, g), plane, 4), planar3_levels::table, x);
    }
};

// Rings of 32 bits: the bits before are those of the plane, rotated.
template <class at>
struct trellis_planar_pairs : planar_pairs<at> {
    static void levels(const char * row, int g, __m512 * x) {
        uint32_t plane[2];
        memcpy(plane, row + at::high_at(g), sizeof(plane));
        const auto both = [&](int n) { return rotated(plane[0], n) | (uint64_t) rotated(plane[1], n) << 32; };
        const __m512i four = planar_pairs<at>::add_bit(planar_pairs<at>::low_bits(row, g), both(0) ^ both(2), 4);
        planar_pairs<at>::look_up(planar_pairs<at>::add_bit(four, both(1), 8), tcq3_levels::table, x);
    }

    static uint32_t rotated(uint32_t bits, int n) { return bits << n | bits >> (32 - n) % 32; }
};

} // namespace kvarn_fa::avx512
