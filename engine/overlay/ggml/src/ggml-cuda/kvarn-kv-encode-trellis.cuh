#pragma once

// A warp writes a block of a trellis code and finds the path that kvarn-kv-trellis.h prescribes, so the bytes are the CPU's.
// All rings and all first states of a block are searched at once. Lane l owns n = qk/32 values that follow each other, from n*l on,
// so a ring has ring/n lanes. Each of them follows the paths that begin in state l % 4; the totals of the four states they have
// reached stay in its registers. A step asks other lanes only for distances to the nearest levels, in two shuffles that wait for
// nothing before them.

#include "kvarn-kv-encode.cuh"

// level(i): the levels of e = 0. Those of e = 1 are the same with the other sign, in reverse, and none is 0:
// the readers build on it (kvarn-kv-codec.cuh).
template <class book>
static constexpr __host__ __device__ bool kvarn_is_symmetric() {
    for (int i = 0; i < book::n_levels; ++i) {
        if (book::level(i) == 0 || book::level(book::n_levels + (i ^ (book::n_ranks - 1))) != -book::level(i)) {
            return false;
        }
    }
    return true;
}

struct kvarn_book_tcq4 {
    static constexpr int   ring      = KVARN_TCQ4_RING;
    static constexpr int   n_ranks   = 8;
    static constexpr int   n_levels  = 2*n_ranks;
    static constexpr float per_sigma = KVARN_TCQ4_PER_SIGMA;
    static constexpr float d_max     = KVARN_TCQ4_D_MAX;
    static constexpr __host__ __device__ int level(const int i) {
        constexpr int levels[] = KVARN_TCQ4_LEVELS;
        return levels[i];
    }
};

struct kvarn_book_tcq3 {
    static constexpr int   ring      = KVARN_TCQ3_RING;
    static constexpr int   n_ranks   = 4;
    static constexpr int   n_levels  = 2*n_ranks;
    static constexpr float per_sigma = KVARN_TCQ3_PER_SIGMA;
    static constexpr float d_max     = KVARN_TCQ3_D_MAX;
    static constexpr __host__ __device__ int level(const int i) {
        constexpr int levels[] = KVARN_TCQ3_LEVELS;
        return levels[i];
    }
};

static_assert(kvarn_is_symmetric<kvarn_book_tcq4>() && kvarn_is_symmetric<kvarn_book_tcq3>(), "readers need symmetric levels");

static __device__ __forceinline__ int kvarn_low_16(const uint32_t pair) {
    return (int16_t) pair;
}

static __device__ __forceinline__ int kvarn_high_16(const uint32_t pair) {
    return (int32_t) pair >> 16;
}

// The nearest level of each subset s = 2*e + w: distance[e] holds how far q lies above it, w = 0 in the low half. The norm of a block
// bounds q, so distances fit 16 bits. rank: a byte for each subset.
template <class book>
static __device__ __forceinline__ void kvarn_meet(const int q, uint32_t * distance, uint32_t & rank) {
    rank = 0;
    distance[0] = distance[1] = 0;
#pragma unroll
    for (int s = 0; s < 4; ++s) {
        int level_and_rank = 256*book::level(s*book::n_ranks);
#pragma unroll
        for (int r = 1; r < book::n_ranks; ++r) {
            const int below = book::level(s*book::n_ranks + r - 1);
            const int above = book::level(s*book::n_ranks + r);
            if (q > (below + above)*KVARN_TRELLIS_FRACTION/2) {
                level_and_rank = 256*above + r;
            }
        }
        const uint32_t d = q - KVARN_TRELLIS_FRACTION*(level_and_rank >> 8);
        distance[s/2] |= (d & 0xFFFF) << 16*(s%2);
        rank          |= (level_and_rank & 0xFF) << 8*s;
    }
}

// Totals of the four states after one more value. Bit n of the result: the better path to state n came from u2 = 1.
static __device__ __forceinline__ uint32_t kvarn_advance(int * total, const uint32_t * distance) {
    const int d[4] = { kvarn_low_16(distance[0]), kvarn_high_16(distance[0]), kvarn_low_16(distance[1]), kvarn_high_16(distance[1]) };
    int      next[4];
    uint32_t from_one = 0;
#pragma unroll
    for (int state = 0; state < 4; ++state) {
        const int zero = total[state >> 1]       + d[state]*d[state];
        const int one  = total[(state >> 1) + 2] + d[state ^ 1]*d[state ^ 1];
        from_one |= one < zero ? 1u << state : 0;
        next[state] = one < zero ? one : zero;
    }
#pragma unroll
    for (int state = 0; state < 4; ++state) {
        total[state] = next[state];
    }
    return from_one;
}

// The trellis bits of the lane's ring, value t's at bit t; distance: of the lane's own values.
template <class book, int n>
static __device__ __forceinline__ uint32_t kvarn_find_path(const uint32_t (* distance)[2], const int lane) {
    constexpr int ring = book::ring;
    static_assert(ring/n >= 4, "each first state needs a lane");
    const int start = lane%4;
    const int first = lane & ~(ring/n - 1); // lane of the ring

    int total[4];
#pragma unroll
    for (int state = 0; state < 4; ++state) {
        total[state] = state == start ? 0 : KVARN_TRELLIS_FAR;
    }
    uint32_t from_one[ring/8]; // four bits for each value
#pragma unroll
    for (int t = 0; t < ring; ++t) {
        const uint32_t met[2] = { kvarn_shfl(distance[t%n][0], first + t/n), kvarn_shfl(distance[t%n][1], first + t/n) };
        const uint32_t bits   = kvarn_advance(total, met) << 4*(t%8);
        from_one[t/8] = t%8 == 0 ? bits : from_one[t/8] | bits;
    }

    uint32_t trellis = 0;
    uint32_t state   = start;
#pragma unroll
    for (int t = ring - 1; t >= 0; --t) {
        const uint32_t u2 = (from_one[t/8] >> (4*(t%8) + state)) & 1;
        trellis |= (state & 1) << t;
        state    = state >> 1 | u2 << 1;
    }

    // the least total of the four that ended where they began, then the lowest state
    const int closed = start < 2 ? (start == 0 ? total[0] : total[1]) : (start == 2 ? total[2] : total[3]);
    uint32_t best = (uint32_t) closed << 2 | start; // totals of rings are below 2^29
#pragma unroll
    for (int step = 1; step < 4; step *= 2) {
        const uint32_t other = kvarn_shfl_xor(best, step);
        best = other < best ? other : best;
    }
    return kvarn_shfl(trellis, first + (int) (best & 3));
}

// ranks: a byte for each of the lane's values; trellis: the bits of its ring. Returns d; for a block of zeros all are 0.
template <class book, int qk>
static __device__ __forceinline__ ggml_half kvarn_encode_trellis(
        const float * __restrict__ x, const int lane, uint32_t & ranks, uint32_t & trellis) {
    constexpr int n = qk/32;
    float v[n]; // as the sum of squares wants them, every 32nd
    const double norm  = kvarn_norm<qk>(x, lane, v);
    const double fine  = KVARN_TRELLIS_FRACTION*(book::per_sigma*sqrt((double) qk)/norm);
    const float  scale = fine < (double) FLT_MAX ? (float) fine : FLT_MAX;

    int      q[n];
    uint32_t distance[n][2];
    uint32_t rank[n];
#pragma unroll
    for (int j = 0; j < n; ++j) {
        q[j] = __float2int_rn(kvarn_mul(kvarn_clean(x[n*lane + j]), scale));
        kvarn_meet<book>(q[j], distance[j], rank[j]);
    }
    trellis = kvarn_find_path<book, n>(distance, lane);

    // bits of the ring turned so that bit j + 2 is u of the lane's value j
    const int      at     = (n*lane)%book::ring;
    const int      turn   = (at + book::ring - 2)%book::ring;
    const uint32_t turned = trellis >> turn | trellis << ((book::ring - turn) & 31);
    ranks = 0;
    int level_energy = 0;
#pragma unroll
    for (int j = 0; j < n; ++j) {
        const uint32_t e = (turned >> (j + 1)) & 1;
        const uint32_t w = (turned >> (j + 2) ^ turned >> j) & 1;
        const uint32_t d = e ? distance[j][1] : distance[j][0];
        const int      l = (q[j] - (w ? kvarn_high_16(d) : kvarn_low_16(d)))/KVARN_TRELLIS_FRACTION; // no remainder
        level_energy += l*l;
        ranks |= (rank[j] >> 8*(2*e + w) & 0xFF) << 8*j;
    }

    const ggml_half d_half = kvarn_scale<book>(norm, level_energy);
    if (__half_as_ushort(d_half) == 0) {
        ranks = trellis = 0;
    }
    return d_half;
}

// Both: n values of a lane lie in n bytes that follow each other; lanes that share these bytes each store a part.

template <int qk>
static __device__ __forceinline__ void kvarn_store_trellis_nibbles(
        const uint32_t ranks, const uint32_t trellis, const int lane, uint8_t * qs) {
    constexpr int n = qk/32;
    const int at   = n*lane%16;      // in the ring, the low nibbles of 16 bytes or their high ones
    const int half = n*lane/16%2;
    uint32_t word = (ranks | kvarn_bit_to_byte(trellis >> at) << 3) << 4*half;
    word |= kvarn_shfl_xor(word, 16/n);
#pragma unroll
    for (int i = 0; i < n/2; ++i) {
        const int byte = n/2*half + i;
        qs[n*lane/32*16 + at + byte] = word >> 8*byte;
    }
}

template <int qk>
static __device__ __forceinline__ void kvarn_store_trellis_planes(
        const uint32_t ranks, const uint32_t trellis, const int lane, uint8_t * qs, uint8_t * qh) {
    constexpr int n = qk/32;
    const int g    = n*lane/32;
    const int part = n*lane/8%4;
    uint32_t word = ranks << 2*part;
    word |= kvarn_shfl_xor(word, 8/n);
    word |= kvarn_shfl_xor(word, 16/n);
    if (part < n) {
        qs[8*g + n*lane%8 + part] = word >> 8*part;
    }
    const int i = lane%(32/n);
    if (i < 4) {
        qh[4*g + i] = trellis >> 8*i;
    }
}
