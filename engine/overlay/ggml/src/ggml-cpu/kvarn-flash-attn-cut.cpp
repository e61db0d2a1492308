#include "kvarn-flash-attn-cut.h"

#include "kvarn-flash-attn-tile.h"

#include "ggml-cpu-impl.h"
#include "ggml-impl.h"
#include "ops.h"

#include <algorithm>
#include <numeric>

namespace kvarn_fa {

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1)/b; }

size_t padded(size_t bytes) { return GGML_PAD(bytes, CACHE_LINE_SIZE); }

// A split exists to occupy every thread equally: the least number of parts that gives each the same number of units.
static int64_t choose_parts(int64_t n_tiles, int64_t key_tiles, int n_threads) {
    if (n_tiles >= 4*n_threads) {
        return 1;
    }
    const int64_t parts = n_threads/std::gcd(n_tiles, (int64_t) n_threads);
    // Many tiles on an odd number of threads: a rough split, or the partial results grow out of all proportion.
    const int64_t bounded = n_tiles < n_threads ? parts : std::min<int64_t>(parts, 4);
    return std::clamp<int64_t>(bounded, 1, key_tiles);
}

cutting cut(const ggml_tensor * dst, int n_threads) {
    const ggml_tensor * q = dst->src[0];
    const ggml_tensor * k = dst->src[1];
    const ggml_tensor * v = dst->src[2];
    const int64_t group = q->ne[2]/k->ne[2];

    cutting c = {};
    c.heads       = std::min<int64_t>(group, KVARN_FA_ROWS);
    c.head_tiles  = ceil_div(group, c.heads);
    c.queries     = std::min<int64_t>(KVARN_FA_ROWS/c.heads, q->ne[1]);
    c.query_tiles = ceil_div(q->ne[1], c.queries);
    c.n_tiles     = q->ne[3]*k->ne[2]*c.head_tiles*c.query_tiles;
    c.key_tiles   = std::max<int64_t>(1, ceil_div(k->ne[1], KVARN_FA_KEYS));
    c.n_parts     = choose_parts(c.n_tiles, c.key_tiles, n_threads);
    c.ld          = GGML_PAD(v->ne[0], 16);

    const size_t floats = KVARN_FA_ROWS*KVARN_FA_KEYS + KVARN_FA_KEYS + KVARN_FA_KEYS*c.ld + KVARN_FA_ROWS*c.ld;
    c.thread_bytes  = padded(floats*sizeof(float)) + padded(kvarn_fa_query_bytes(k->ne[0])) + padded(kvarn_fa_score_bytes(k->ne[0]));
    c.partial_bytes = c.n_parts == 1 ? 0 : padded(c.n_tiles*c.rows()*c.n_parts*c.partial_floats()*sizeof(float));
    return c;
}

size_t work_bytes(const cutting & c, int n_threads) {
    return CACHE_LINE_SIZE + n_threads*c.thread_bytes + c.partial_bytes;
}

} // namespace kvarn_fa
