#include "kvarn-kv-trellis-search.h"

#include "kvarn-kv-trellis.h"

#include <assert.h>

#define MAX_RING 32

// What the search leaves behind for the way back: the rank nearest to each value in each subset (e*2 + w), and for each first
// and each reached state whether the better path came from u2 = 1.
struct trail {
    uint8_t rank[MAX_RING][4];
    uint8_t from_one[MAX_RING][4][4];
};

// Errors of the nearest level of each subset; fills the ranks.
static void meet(const struct kvarn_trellis * code, int32_t q, int32_t * error, uint8_t * rank) {
    const int n_ranks = 1 << (code->bits - 1);
    for (int s = 0; s < 4; ++s) {
        const int8_t * level = code->levels + s*n_ranks;
        int r = 0;
        // the middle between two levels, in units of 1/FRACTION of a level
        for (int i = 0; i + 1 < n_ranks; ++i) {
            r += q > (level[i] + level[i + 1])*KVARN_TRELLIS_FRACTION/2;
        }
        const int32_t distance = q - level[r]*KVARN_TRELLIS_FRACTION;
        rank[s]  = r;
        error[s] = distance*distance;
    }
}

static void advance(int32_t total[4], const int32_t * error, uint8_t * from_one) {
    int32_t next[4];
    for (int state = 0; state < 4; ++state) {
        const int     u1   = state >> 1;
        const int32_t zero = total[u1]     + error[state];
        const int32_t one  = total[u1 + 2] + error[state ^ 1];
        from_one[state] = one < zero;
        next[state]     = one < zero ? one : zero;
    }
    for (int state = 0; state < 4; ++state) {
        total[state] = next[state];
    }
}

static void walk_back(const struct kvarn_trellis * code, const struct trail * trail, int start, uint8_t * symbol) {
    int state = start;
    for (int t = code->ring - 1; t >= 0; --t) {
        const int u  = state & 1;
        const int e  = state >> 1;
        const int u2 = trail->from_one[t][start][state];
        symbol[t] = trail->rank[t][e*2 + (u ^ u2)] | u << (code->bits - 1);
        state = e + 2*u2;
    }
}

void kvarn_trellis_search(const struct kvarn_trellis * code, const int32_t * q, uint8_t * symbol) {
    assert(code->ring <= MAX_RING);
    struct trail trail;
    int32_t total[4][4];
    for (int start = 0; start < 4; ++start) {
        for (int state = 0; state < 4; ++state) {
            total[start][state] = state == start ? 0 : KVARN_TRELLIS_FAR;
        }
    }
    for (int t = 0; t < code->ring; ++t) {
        int32_t error[4];
        meet(code, q[t], error, trail.rank[t]);
        for (int start = 0; start < 4; ++start) {
            advance(total[start], error, trail.from_one[t][start]);
        }
    }
    int best = 0;
    for (int start = 1; start < 4; ++start) {
        best = total[start][start] < total[best][best] ? start : best;
    }
    walk_back(code, &trail, best, symbol);
}

void kvarn_trellis_indices(const struct kvarn_trellis * code, const uint8_t * symbol, uint8_t * index) {
    const int top = 1 << (code->bits - 1);
    for (int t = 0; t < code->ring; ++t) {
        const int one_before = symbol[(t + code->ring - 1) % code->ring];
        const int two_before = symbol[(t + code->ring - 2) % code->ring];
        index[t] = (symbol[t] ^ (two_before & top)) | (one_before & top) << 1;
    }
}
