#pragma once

// The trellis search of kvarn-kv-trellis.h with AVX2. The errors of 16 values are found at once; then each value advances
// the totals of all four first states, two to a register. Included by one file, after ggml-cpu's own headers.

#include "kvarn-kv-trellis.h"

#include <cstdint>

static_assert(KVARN_TRELLIS_FRACTION == 16, "see meet_16");

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

// errors[t] holds those of subsets 0..3 of value t; ranks[t] the four ranks, one a byte.
// The norm of a block bounds its values, so q and its distance from a level fit 16 bits.
static inline void meet_16(const trellis & code, __m256i first, __m256i second, __m128i * errors, int32_t * ranks) {
    const __m256i q = _mm256_packs_epi32(first, second); // unpacking sixteens puts them back in order
    __m256i error[2][4];
    __m256i rank[4];
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
        rank[s]     = above;
    }
    const __m256i rank01 = _mm256_or_si256(rank[0], _mm256_slli_epi16(rank[1], 8));
    const __m256i rank23 = _mm256_or_si256(rank[2], _mm256_slli_epi16(rank[3], 8));
    _mm256_storeu_si256((__m256i *) ranks,       _mm256_unpacklo_epi16(rank01, rank23));
    _mm256_storeu_si256((__m256i *) (ranks + 8), _mm256_unpackhi_epi16(rank01, rank23));
    transpose_8(error[0], errors);
    transpose_8(error[1], errors + 8);
}

// Totals of two first states, four states reached from each. Bit n + 4*h of the result: from u2 = 1 to state n, in half h.
static inline __m256i advance_2(__m256i total, __m256i error, int * from_one) {
    const __m256i swapped = _mm256_shuffle_epi32(error, 0xb1);
    const __m256i zero = _mm256_add_epi32(_mm256_unpacklo_epi32(total, total), error);
    const __m256i one  = _mm256_add_epi32(_mm256_unpackhi_epi32(total, total), swapped);
    *from_one = _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(zero, one)));
    return _mm256_min_epi32(zero, one);
}

// What is known of one ring: the errors going forward, what to look up on the way back.
struct ring_trail {
    __m128i  errors[32];
    int32_t  ranks[32];
    uint16_t from_one[32]; // bit 4*start + state
    int      state, start, level_energy;
};

static inline void go_forward(const trellis & code, ring_trail * ring) {
    const int far = KVARN_TRELLIS_FAR;
    __m256i total01[2], total23[2];
    for (int i = 0; i < 2; ++i) {
        total01[i] = _mm256_setr_epi32(0, far, far, far, far, 0, far, far);
        total23[i] = _mm256_setr_epi32(far, far, 0, far, far, far, far, 0);
    }
    for (int t = 0; t < code.ring; ++t) {
        for (int i = 0; i < 2; ++i) {
            const __m256i error = _mm256_broadcastsi128_si256(ring[i].errors[t]);
            int low, high;
            total01[i] = advance_2(total01[i], error, &low);
            total23[i] = advance_2(total23[i], error, &high);
            ring[i].from_one[t] = (uint16_t) (low | high << 8);
        }
    }
    for (int i = 0; i < 2; ++i) {
        const int32_t closed[4] = {
            _mm256_extract_epi32(total01[i], 0), _mm256_extract_epi32(total01[i], 5),
            _mm256_extract_epi32(total23[i], 2), _mm256_extract_epi32(total23[i], 7),
        };
        int best = 0;
        for (int start = 1; start < 4; ++start) {
            best = closed[start] < closed[best] ? start : best;
        }
        ring[i].start = ring[i].state = best;
    }
}

static inline void go_back(const trellis & code, ring_trail * ring, int t, uint8_t * symbol) {
    const int top  = code.bits - 1;
    const int u    = ring->state & 1;
    const int e    = ring->state >> 1;
    const int u2   = (ring->from_one[t] >> (4*ring->start + ring->state)) & 1;
    const int w    = u ^ u2;
    const int rank = (ring->ranks[t] >> 8*(e*2 + w)) & 7;
    const int level = code.levels[rank | w << top | e << (top + 1)];
    *symbol = (uint8_t) (rank | u << top);
    ring->level_energy += level*level;
    ring->state = e + 2*u2;
}

// kvarn_trellis_search() for two neighbouring rings, side by side because each step waits for the one before.
// Returns the sum of the squared levels.
static inline int search_two_rings(const trellis & code, const __m256i * q, uint8_t * symbol) {
    ring_trail ring[2];
    for (int t = 0; t < 2*code.ring; t += 16) {
        ring_trail * to = ring + t/code.ring;
        meet_16(code, q[t/8], q[t/8 + 1], to->errors + t%code.ring, to->ranks + t%code.ring);
    }
    go_forward(code, ring);
    ring[0].level_energy = ring[1].level_energy = 0;
    for (int t = code.ring - 1; t >= 0; --t) {
        go_back(code, ring,     t, symbol + t);
        go_back(code, ring + 1, t, symbol + t + code.ring);
    }
    return ring[0].level_energy + ring[1].level_energy;
}
