// Two neighbouring groups of a cached row at once, with AVX2 alone: the 64 levels as int8 in two registers, a group in each
// 128-bit lane. So one load has the nibbles of both, and a ring stays within a lane. Included after ggml-cpu-impl.h.

#pragma once

#include "kvarn-flash-attn-layout.h"

#include <immintrin.h>

#include <cstdint>
#include <cstring>

namespace kvarn_fa {

struct pair {
    __m256i low;   // values 0 .. 15 of both groups
    __m256i high;  // values 16 .. 31
};

// 16 levels in both lanes, for a byte shuffle
static inline __m256i both(const int8_t * levels) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *) levels));
}

static inline __m256i load_both(const char * low, const char * high) {
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *) low)), _mm_loadu_si128((const __m128i *) high), 1);
}

static inline pair nibbles_of(__m256i bytes) {
    const __m256i nibble = _mm256_set1_epi8(15);
    return { _mm256_and_si256(bytes, nibble), _mm256_and_si256(_mm256_srli_epi16(bytes, 4), nibble) };
}

static inline pair look_up(__m256i table, pair index) {
    return { _mm256_shuffle_epi8(table, index.low), _mm256_shuffle_epi8(table, index.high) };
}

// A codec gives the levels of groups g and g + 1 of a row, g even.
struct byte_pairs : q8_0_layout {
    static pair levels(const char * row, int g) {
        const char * a = row + codes_at(g);
        const char * b = row + codes_at(g + 1);
        return { load_both(a, b), load_both(a + 16, b + 16) };
    }
};

template <class at>
struct nibble_pairs : at {
    static __m256i bytes(const char * row, int g) {
        const char * a = row + at::codes_at(g);
        return at::has_pairs ? _mm256_loadu_si256((const __m256i *) a) : load_both(a, row + at::codes_at(g + 1));
    }
};

struct q4_0_pairs : nibble_pairs<q4_0_layout> {
    static pair levels(const char * row, int g) {
        const pair symbols = nibbles_of(bytes(row, g));
        return { _mm256_sub_epi8(symbols.low, _mm256_set1_epi8(8)), _mm256_sub_epi8(symbols.high, _mm256_set1_epi8(8)) };
    }
};

template <class at, class book>
struct level_pairs : nibble_pairs<at> {
    static pair levels(const char * row, int g) {
        return look_up(both(book::table), nibbles_of(nibble_pairs<at>::bytes(row, g)));
    }
};

// The symbols before are the bytes before, in a lane that is a ring.
template <class at>
struct trellis_nibble_pairs : nibble_pairs<at> {
    static pair levels(const char * row, int g) {
        const __m256i c     = nibble_pairs<at>::bytes(row, g);
        const __m256i c1    = _mm256_alignr_epi8(c, c, 15);
        const __m256i c2    = _mm256_alignr_epi8(c, c, 14);
        const pair    index = nibbles_of(_mm256_xor_si256(c, _mm256_and_si256(c2, _mm256_set1_epi8((char) 0x88))));
        const pair    zero  = look_up(both(tcq4_levels::table),      index);
        const pair    one   = look_up(both(tcq4_levels::table + 16), index);
        // a blend looks at the top bit of each byte
        return { _mm256_blendv_epi8(zero.low, one.low, _mm256_slli_epi16(c1, 4)), _mm256_blendv_epi8(zero.high, one.high, c1) };
    }
};

// 16 bytes of two low bits and 8 of the high bit.
template <class at>
struct planar_pairs : at {
    // the bytes with the low bits of a group in both halves of its lane
    static __m256i low_bytes(const char * row, int g) {
        const __m256i each = _mm256_setr_epi64x(0x0706050403020100, 0x0706050403020100, 0x0f0e0d0c0b0a0908, 0x0f0e0d0c0b0a0908);
        return _mm256_shuffle_epi8(both((const int8_t *) row + at::codes_at(g)), each);
    }

    static pair low_bits(const char * row, int g) {
        const __m256i bytes = low_bytes(row, g);
        const __m256i two   = _mm256_set1_epi8(3);
        return { _mm256_and_si256(_mm256_srlv_epi64(bytes, _mm256_setr_epi64x(0, 2, 0, 2)), two),
                 _mm256_and_si256(_mm256_srlv_epi64(bytes, _mm256_setr_epi64x(4, 6, 4, 6)), two) };
    }

    // all ones where the bit is set
    static pair high_bit(const char * row, int g) {
        int64_t plane;
        memcpy(&plane, row + at::high_at(g), sizeof(plane));
        const __m256i low    = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0404040404040404, 0x0505050505050505);
        const __m256i bit    = _mm256_set1_epi64x((int64_t) 0x8040201008040201);
        const __m256i planes = _mm256_set1_epi64x(plane);
        const pair    bytes  = { _mm256_shuffle_epi8(planes, low), _mm256_shuffle_epi8(planes, _mm256_add_epi8(low, _mm256_set1_epi8(2))) };
        return { _mm256_cmpeq_epi8(_mm256_and_si256(bytes.low, bit), bit), _mm256_cmpeq_epi8(_mm256_and_si256(bytes.high, bit), bit) };
    }

    static pair levels(const char * row, int g) {
        const pair    two   = low_bits(row, g);
        const pair    top   = high_bit(row, g);
        const __m256i four  = _mm256_set1_epi8(4);
        return look_up(both(planar3_levels::table),
            { _mm256_or_si256(two.low, _mm256_and_si256(top.low, four)), _mm256_or_si256(two.high, _mm256_and_si256(top.high, four)) });
    }
};

// A group is a ring: before the first of the low values comes the last of the high ones, in the same lane.
template <class at>
struct trellis_planar_pairs : planar_pairs<at> {
    // LEVELS[e][w][rank] at rank << 2 | e << 1 | w: a comparison's -1 is then one step
    static __m256i table() {
        const __m256i ranks = _mm256_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15,
                                               0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
        return _mm256_shuffle_epi8(both(tcq3_levels::table), ranks);
    }

    static pair levels(const char * row, int g) {
        const pair    u     = planar_pairs<at>::high_bit(row, g);
        const __m256i bytes = planar_pairs<at>::low_bytes(row, g);
        const __m256i ranks = _mm256_set1_epi8(3 << 2);
        const pair    rank  = { _mm256_and_si256(_mm256_sllv_epi64(bytes, _mm256_setr_epi64x(2, 0, 2, 0)), ranks),
                                _mm256_and_si256(_mm256_srlv_epi64(bytes, _mm256_setr_epi64x(2, 4, 2, 4)), ranks) };
        return look_up(table(), { index(rank.low, u.low, u.high), index(rank.high, u.high, u.low) });
    }

    static __m256i index(__m256i rank, __m256i u, __m256i before) {
        const __m256i u1 = _mm256_alignr_epi8(u, before, 15);
        const __m256i u2 = _mm256_alignr_epi8(u, before, 14);
        return _mm256_or_si256(_mm256_sub_epi8(rank, _mm256_xor_si256(u, u2)), _mm256_and_si256(u1, _mm256_set1_epi8(2)));
    }
};

} // namespace kvarn_fa
