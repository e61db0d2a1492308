// Cached rows of 16 keys as unsigned bytes in the lanes of AVX-512 registers. Included by kvarn-flash-attn-packed.cpp alone.

#pragma once

#include "kvarn-flash-attn-layout.h"
#include "kvarn-flash-attn-tile.h"

#include "ggml-cpu-impl.h"

namespace kvarn_fa {

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

    // Past the end the last row stands in; nobody reads those scores.
    sixteen_rows(const kvarn_fa_cached & keys, int first) {
        const char * row = keys.data + first*keys.stride;
        for (int r = 0; r < 16; r++) {
            begin[r] = row;
            row += first + r + 1 < keys.n ? keys.stride : 0;
        }
        const __m512i numbers = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        distance = _mm512_mullo_epi32(_mm512_min_epi32(numbers, _mm512_set1_epi32(keys.n - 1 - first)), _mm512_set1_epi32((int32_t) keys.stride));
    }

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

// Of values 4*j .. 4*j + 3 of each row: the two low bits of their symbols, a byte each, from the two halves of 8 bytes ..
static inline __m512i two_low_bits(const __m512i * low, int j) {
    return _mm512_and_si512(_mm512_srli_epi16(low[j % 2], 2*(j/2)), _mm512_set1_epi8(3));
}

// .. and where a bit is set in a plane of 32 bits a row.
static inline __mmask64 bits_of(__m512i plane, int j) {
    const __m512i spread = _mm512_set4_epi32(0x0C0C0C0C, 0x08080808, 0x04040404, 0x00000000);  // byte 0 of each lane to all its bytes
    const __m512i bytes  = _mm512_shuffle_epi8(plane, _mm512_add_epi8(spread, _mm512_set1_epi8((char) (j/2))));
    return _mm512_test_epi8_mask(bytes, _mm512_set1_epi32(j % 2 ? (int) 0x80402010 : 0x08040201));
}

template <class at>
struct planar_codec : at {
    static constexpr int bias = 128;

    static void load(const sixteen_rows & rows, int g, __m512i * u) {
        const __m512i table  = biased_levels(planar3_levels::table);
        const __m512i low[2] = { rows.gather(at::codes_at(g)), rows.gather(at::codes_at(g) + 4) };
        const __m512i high   = rows.gather(at::high_at(g));
        for (int j = 0; j < 8; j++) {
            const __m512i low2 = two_low_bits(low, j);
            u[j] = _mm512_shuffle_epi8(table, _mm512_mask_add_epi8(low2, bits_of(high, j), low2, _mm512_set1_epi8(4)));
        }
    }
};

// Two rings a group, in the low and in the high nibbles of its 16 bytes: the symbols before are the bytes before. Of the four
// registers with bytes 4*j .. 4*j + 3, that is a byte of the same lane or the last one of the register before.
template <class at>
struct trellis_nibble_codec : at {
    static constexpr int bias = 128;

#if defined(__AVX512VBMI__) && defined(__AVX512VBMI2__)
    // The fifth bit of an index is the top bit of the symbol before, shifted in; the sixth may be anything, the table is there twice.
    static void load(const sixteen_rows & rows, int g, __m512i * u) {
        const __m512i table  = _mm512_xor_si512(_mm512_set1_epi8((char) 0x80),
                _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *) tcq4_levels::table)));
        const __m512i nibble = _mm512_set1_epi8(0x0F);
        __m512i c[4];
        load_16x16(rows.begin, at::codes_at(g), c);
        for (int j = 0; j < 4; j++) {
            const __m512i before = c[(j + 3) % 4];
            const __m512i c2     = _mm512_shldi_epi32(c[j], before, 16);
            const __m512i x      = _mm512_ternarylogic_epi32(c[j], c2, _mm512_set1_epi8((char) 0x88), 0x78);  // c ^ (c2 & top)
            const __m512i low    = _mm512_ternarylogic_epi32(nibble, x, _mm512_shldi_epi32(c[j], before, 9), 0xca);
            const __m512i high   = _mm512_ternarylogic_epi32(nibble, _mm512_srli_epi16(x, 4), _mm512_shldi_epi32(c[j], before, 5), 0xca);
            u[j]     = _mm512_permutexvar_epi8(low,  table);
            u[j + 4] = _mm512_permutexvar_epi8(high, table);
        }
    }
#else
    static void load(const sixteen_rows & rows, int g, __m512i * u) {
        const __m512i table[2] = { biased_levels(tcq4_levels::table), biased_levels(tcq4_levels::table + 16) };
        const __m512i nibble   = _mm512_set1_epi8(0x0F);
        __m512i c[4];
        load_16x16(rows.begin, at::codes_at(g), c);
        for (int j = 0; j < 4; j++) {
            const __m512i before = c[(j + 3) % 4];
            const __m512i c1 = _mm512_or_si512(_mm512_slli_epi32(c[j],  8), _mm512_srli_epi32(before, 24));
            const __m512i c2 = _mm512_or_si512(_mm512_slli_epi32(c[j], 16), _mm512_srli_epi32(before, 16));
            const __m512i x  = _mm512_ternarylogic_epi32(c[j], c2, _mm512_set1_epi8((char) 0x88), 0x78);
            u[j]     = look_up(table, _mm512_and_si512(x, nibble), _mm512_test_epi8_mask(c1, _mm512_set1_epi8(0x08)));
            u[j + 4] = look_up(table, _mm512_and_si512(_mm512_srli_epi16(x, 4), nibble), _mm512_movepi8_mask(c1));
        }
    }

    static __m512i look_up(const __m512i * table, __m512i index, __mmask64 e) {
        return _mm512_mask_shuffle_epi8(_mm512_shuffle_epi8(table[0], index), e, table[1], index);
    }
#endif
};

// One ring a group, so the bits before are those of the plane, rotated.
template <class at>
struct trellis_planar_codec : at {
    static constexpr int bias = 128;

    static void load(const sixteen_rows & rows, int g, __m512i * u) {
        const __m512i low[2] = { rows.gather(at::codes_at(g)), rows.gather(at::codes_at(g) + 4) };
        const __m512i plane  = rows.gather(at::high_at(g));
        const __m512i w      = _mm512_xor_si512(plane, _mm512_rol_epi32(plane, 2));
        const __m512i e      = _mm512_rol_epi32(plane, 1);
        for (int j = 0; j < 8; j++) {
            u[j] = look_up(low, w, e, j);
        }
    }

#if defined(__AVX512VBMI__)
    // A byte of an index is a window of each plane that has the value's bit in place; what else is in the window nobody looks at.
    static __m512i look_up(const __m512i * low, __m512i w, __m512i e, int j) {
        const __m512i table = biased_levels(tcq3_levels::table);  // the same in each 16 bytes: two bits of 64 choose nothing
        const __m512i w2    = _mm512_multishift_epi64_epi8(windows(4*j - 2), w);
        const __m512i e3    = _mm512_multishift_epi64_epi8(windows(4*j - 3), e);
        __m512i index = _mm512_srli_epi16(low[j % 2], 2*(j/2));
        index = _mm512_ternarylogic_epi32(_mm512_set1_epi8(4), w2, index, 0xca);
        index = _mm512_ternarylogic_epi32(_mm512_set1_epi8(8), e3, index, 0xca);
        return _mm512_permutexvar_epi8(index, table);
    }

    // of the bytes of both rows of 64 bits: from that bit of its row on, and one further for each
    static __m512i windows(int from) {
        const int64_t row = 0x03020100 + 0x01010101ll*(from & 63);
        return _mm512_set1_epi64((row & 0x3F3F3F3F) | ((row + 0x20202020) & 0x3F3F3F3F) << 32);
    }
#else
    static __m512i look_up(const __m512i * low, __m512i w, __m512i e, int j) {
        __m512i index = two_low_bits(low, j);
        index = _mm512_mask_add_epi8(index, bits_of(w, j), index, _mm512_set1_epi8(4));
        index = _mm512_mask_add_epi8(index, bits_of(e, j), index, _mm512_set1_epi8(8));
        return _mm512_shuffle_epi8(biased_levels(tcq3_levels::table), index);
    }
#endif
};

} // namespace kvarn_fa
