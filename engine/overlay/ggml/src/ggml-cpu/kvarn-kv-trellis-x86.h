#pragma once

// The trellis search of kvarn-kv-trellis.h with AVX2 or AVX-512. The errors of 16 values are found at once; then each value advances
// the totals of all four first states. The way back only notes its states; symbols come from them 32 at a time.
// Included by one file, after ggml-cpu's own headers.

#include "kvarn-kv-trellis.h"

#include <cstdint>

static_assert(KVARN_TRELLIS_FRACTION == 16, "see meet_16");

namespace {

struct trellis {
    int bits, ring;
    int n_thresholds;
    int16_t threshold[4][8]; // [subset][between rank and rank + 1], as q is
    int8_t  level[4][16];    // [subset][rank]
    int8_t  levels[32];
};

static constexpr trellis make_trellis(const int8_t * levels, int bits, int ring) {
    const int n_ranks = 1 << (bits - 1);
    trellis code = { bits, ring, n_ranks - 1, {}, {}, {} };
    for (int i = 0; i < 4*n_ranks; ++i) {
        const int s = i/n_ranks, r = i%n_ranks;
        code.levels[i]   = levels[i];
        code.level[s][r] = levels[i];
        if (r + 1 < n_ranks) {
            code.threshold[s][r] = (int16_t) ((levels[i] + levels[i + 1])*KVARN_TRELLIS_FRACTION/2);
        }
    }
    return code;
}

// Four numbers of each of 8 values: to[t] = those of value t.
static inline void transpose_8(const __m256i * of, __m128i * to) {
    const __m256i s01[2] = { _mm256_unpacklo_epi32(of[0], of[1]), _mm256_unpackhi_epi32(of[0], of[1]) };
    const __m256i s23[2] = { _mm256_unpacklo_epi32(of[2], of[3]), _mm256_unpackhi_epi32(of[2], of[3]) };
    for (int i = 0; i < 4; ++i) { // values i and i + 4
        const __m256i two = i % 2 ? _mm256_unpackhi_epi64(s01[i/2], s23[i/2]) : _mm256_unpacklo_epi64(s01[i/2], s23[i/2]);
        to[i]     = _mm256_castsi256_si128(two);
        to[i + 4] = _mm256_extracti128_si256(two, 1);
    }
}

// Two neighbouring rings, side by side because each step waits for the one before.
struct two_rings {
    __m128i  errors[64];      // those of subsets 0..3
    uint8_t  ranks[4][64];    // [subset]
    uint16_t from_one[2][32]; // bit 4*start + state
    int      start[2];
    uint8_t  path[64];        // of each value u, e and u2, from bit 0 up
};

// Errors and ranks of values t .. t + 15.
// The norm of a block bounds its values, so q and its distance from a level fit 16 bits.
static inline void meet_16(const trellis & code, __m256i first, __m256i second, int t, two_rings & rings) {
    const __m256i q = _mm256_packs_epi32(first, second); // unpacking sixteens puts them back in order
    __m256i error[2][4];
    for (int s = 0; s < 4; ++s) {
        __m256i above = _mm256_setzero_si256();
        for (int i = 0; i < code.n_thresholds; ++i) {
            above = _mm256_sub_epi16(above, _mm256_cmpgt_epi16(q, _mm256_set1_epi16(code.threshold[s][i])));
        }
        const __m256i table    = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *) code.level[s]));
        const __m256i level    = _mm256_slli_epi16(_mm256_shuffle_epi8(table, above), 8);
        const __m256i distance = _mm256_sub_epi16(q, _mm256_srai_epi16(level, 4)); // 8 - 4: times KVARN_TRELLIS_FRACTION
        const __m256i low      = _mm256_mullo_epi16(distance, distance);
        const __m256i high     = _mm256_mulhi_epi16(distance, distance);
        error[0][s] = _mm256_unpacklo_epi16(low, high);
        error[1][s] = _mm256_unpackhi_epi16(low, high);
        const __m128i bytes = _mm_packus_epi16(_mm256_castsi256_si128(above), _mm256_extracti128_si256(above, 1));
        _mm_storeu_si128((__m128i *) (rings.ranks[s] + t), _mm_shuffle_epi32(bytes, 0xd8));
    }
    transpose_8(error[0], rings.errors + t);
    transpose_8(error[1], rings.errors + t + 8);
}

// Totals of the paths from each first state to each state, [4*start + state].
#if defined(__AVX512F__)
class totals {
  public:
    totals() : all(_mm512_mask_set1_epi32(_mm512_set1_epi32(KVARN_TRELLIS_FAR), 0x8421, 0)) {}

    // Bit 4*start + state of the result: reached from u2 = 1.
    uint16_t advance(__m128i errors) {
        const __m512i error   = _mm512_broadcast_i32x4(errors);
        const __m512i swapped = _mm512_shuffle_epi32(error, (_MM_PERM_ENUM) 0xb1);
        const __m512i zero = _mm512_add_epi32(_mm512_unpacklo_epi32(all, all), error);
        const __m512i one  = _mm512_add_epi32(_mm512_unpackhi_epi32(all, all), swapped);
        all = _mm512_min_epi32(zero, one);
        return (uint16_t) _mm512_cmpgt_epi32_mask(zero, one);
    }

    void store(int32_t * to) const { _mm512_storeu_si512(to, all); }

  private:
    __m512i all;
};
#else
class totals {
  public:
    totals() {
        const int far = KVARN_TRELLIS_FAR;
        half[0] = _mm256_setr_epi32(0, far, far, far, far, 0, far, far);
        half[1] = _mm256_setr_epi32(far, far, 0, far, far, far, far, 0);
    }

    // Bit 4*start + state of the result: reached from u2 = 1.
    uint16_t advance(__m128i errors) {
        const __m256i error = _mm256_broadcastsi128_si256(errors);
        return (uint16_t) (advance(half[0], error) | advance(half[1], error) << 8);
    }

    void store(int32_t * to) const {
        _mm256_storeu_si256((__m256i *) to,       half[0]);
        _mm256_storeu_si256((__m256i *) (to + 8), half[1]);
    }

  private:
    __m256i half[2];

    static int advance(__m256i & total, __m256i error) {
        const __m256i swapped = _mm256_shuffle_epi32(error, 0xb1);
        const __m256i zero = _mm256_add_epi32(_mm256_unpacklo_epi32(total, total), error);
        const __m256i one  = _mm256_add_epi32(_mm256_unpackhi_epi32(total, total), swapped);
        total = _mm256_min_epi32(zero, one);
        return _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(zero, one)));
    }
};
#endif

static inline int best_start(const totals & total) {
    int32_t to[16];
    total.store(to);
    int best = 0;
    for (int start = 1; start < 4; ++start) {
        best = to[5*start] < to[5*best] ? start : best;
    }
    return best;
}

static inline void go_forward(const trellis & code, two_rings & rings) {
    totals total[2];
    for (int t = 0; t < code.ring; ++t) {
        for (int i = 0; i < 2; ++i) {
            rings.from_one[i][t] = total[i].advance(rings.errors[t + i*code.ring]);
        }
    }
    for (int i = 0; i < 2; ++i) {
        rings.start[i] = best_start(total[i]);
    }
}

static inline void go_back(const trellis & code, two_rings & rings) {
    int state[2] = { rings.start[0], rings.start[1] };
    for (int t = code.ring - 1; t >= 0; --t) {
        for (int i = 0; i < 2; ++i) {
            const int u2 = (rings.from_one[i][t] >> (4*rings.start[i] + state[i])) & 1;
            rings.path[t + i*code.ring] = (uint8_t) (state[i] | u2 << 2);
            state[i] = state[i] >> 1 | u2 << 1;
        }
    }
}

// What the path says of values t .. t + 31, a byte each: symbols and levels.
template <const trellis & code>
static inline void look_up_32(const two_rings & rings, int t, uint8_t * symbol, int8_t * level) {
    constexpr int top = code.bits - 1;
    const auto bytes_at = [](const void * from) { return _mm256_loadu_si256((const __m256i *) from); };
    const auto sixteen  = [](const int8_t * from) { return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *) from)); };
    const auto bit_of   = [](__m256i masks, int bit) { return _mm256_srli_epi16(_mm256_and_si256(masks, _mm256_set1_epi8((char) 0x80)), 7 - bit); };

    const __m256i path = bytes_at(rings.path + t);
    const __m256i e    = _mm256_slli_epi16(path, 6);  // a blend looks at the top bit of each byte
    const __m256i w    = _mm256_xor_si256(_mm256_slli_epi16(path, 7), _mm256_slli_epi16(path, 5));
    const __m256i rank = _mm256_blendv_epi8(
        _mm256_blendv_epi8(bytes_at(rings.ranks[0] + t), bytes_at(rings.ranks[1] + t), w),
        _mm256_blendv_epi8(bytes_at(rings.ranks[2] + t), bytes_at(rings.ranks[3] + t), w), e);
    const __m256i index = _mm256_or_si256(rank, bit_of(w, top));
    const __m256i zero  = sixteen(code.levels);
    const __m256i found = code.bits == 4 ? _mm256_blendv_epi8(_mm256_shuffle_epi8(zero, index), _mm256_shuffle_epi8(sixteen(code.levels + 16), index), e)
                                         : _mm256_shuffle_epi8(zero, _mm256_or_si256(index, bit_of(e, top + 1)));
    _mm256_storeu_si256((__m256i *) level,  found);
    _mm256_storeu_si256((__m256i *) symbol, _mm256_or_si256(rank, bit_of(_mm256_slli_epi16(path, 7), top)));
}

// kvarn_trellis_search() for two neighbouring rings of values q: a symbol and a level for each.
template <const trellis & code>
static inline void search_two_rings(const __m256i * q, uint8_t * symbol, int8_t * level) {
    two_rings rings;
    for (int t = 0; t < 2*code.ring; t += 16) {
        meet_16(code, q[t/8], q[t/8 + 1], t, rings);
    }
    go_forward(code, rings);
    go_back(code, rings);
    for (int t = 0; t < 2*code.ring; t += 32) {
        look_up_32<code>(rings, t, symbol + t, level + t);
    }
}

} // namespace
