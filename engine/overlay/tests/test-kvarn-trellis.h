#pragma once

#include "../ggml/src/kvarn-kv-trellis.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

// The trellis as kvarn-kv-trellis.h describes it, written down once more without its search.
struct trellis {
    int  bits, ring;
    double per_sigma;
    std::vector<int8_t> levels;

    // Least error of n values after the trellis bits u1 and u2, over every choice of theirs; [last bit + 2 * the one before].
    // Low bits of a choice come first.
    std::array<int64_t, 4> least(const int32_t * q, int n, int state) const {
        std::array<int64_t, 4> best;
        best.fill(INT64_MAX);
        std::vector<std::array<int64_t, 4>> error(n); // [e*2 + w]
        for (int t = 0; t < n; ++t) {
            for (int s = 0; s < 4; ++s) {
                error[t][s] = INT64_MAX;
                for (int r = 0; r < 1 << (bits - 1); ++r) {
                    const int64_t distance = q[t] - KVARN_TRELLIS_FRACTION*levels[(s << (bits - 1)) + r];
                    error[t][s] = std::min(error[t][s], distance*distance);
                }
            }
        }
        for (uint32_t choice = 0; choice < 1u << n; ++choice) {
            int     u1 = state & 1, u2 = state >> 1;
            int64_t total = 0;
            for (int t = 0; t < n; ++t) {
                const int u = (choice >> t) & 1;
                total += error[t][u1*2 + (u ^ u2)];
                u2 = u1;
                u1 = u;
            }
            best[u1 + 2*u2] = std::min(best[u1 + 2*u2], total);
        }
        return best;
    }

    // Every choice of all trellis bits of a ring: each half from each state to each state, and the two that fit best.
    int64_t least_of_ring(const int32_t * q) const {
        const int half = ring/2;
        std::array<std::array<int64_t, 4>, 4> first, second;
        for (int state = 0; state < 4; ++state) {
            first[state]  = least(q, half, state);
            second[state] = least(q + half, half, state);
        }
        int64_t best = INT64_MAX;
        for (int begin = 0; begin < 4; ++begin) {
            for (int middle = 0; middle < 4; ++middle) {
                best = std::min(best, first[begin][middle] + second[middle][begin]);
            }
        }
        return best;
    }

    // Of a stored block's values, without its scale.
    std::vector<int> stored_levels(const uint8_t * qs, int n) const {
        std::vector<int> symbol(n), level(n);
        for (int j = 0; j < n; ++j) {
            const int g = j/32, i = j%32;
            symbol[j] = bits == 4 ? (qs[16*g + i%16] >> 4*(i/16)) & 15
                                  : ((qs[8*g + i%8] >> 2*(i/8)) & 3) | ((qs[n/4 + 4*g + i/8] >> i%8) & 1) << 2;
        }
        const int top = 1 << (bits - 1);
        for (int j = 0; j < n; ++j) {
            const int first = j - j%ring;
            const int one   = symbol[first + (j + ring - 1)%ring];
            const int two   = symbol[first + (j + ring - 2)%ring];
            level[j] = levels[(symbol[j] ^ (two & top)) | (one & top) << 1];
        }
        return level;
    }
};

static const trellis tcq4 = { 4, KVARN_TCQ4_RING, KVARN_TCQ4_PER_SIGMA, KVARN_TCQ4_LEVELS };
static const trellis tcq3 = { 3, KVARN_TCQ3_RING, KVARN_TCQ3_PER_SIGMA, KVARN_TCQ3_LEVELS };
