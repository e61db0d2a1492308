#include "kvarn-flash-attn.h"

#include "kvarn-flash-attn-tile.h"

#include "ggml-cpu-impl.h"
#include "ggml-cpu.h"
#include "ggml-impl.h"
#include "ops.h"
#include "simd-mappings.h"
#include "vec.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

namespace {

constexpr int KEYS = KVARN_FA_KEYS;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1)/b; }

size_t padded(size_t bytes) { return GGML_PAD(bytes, CACHE_LINE_SIZE); }

// How one node is cut. A tile is the queries x heads that meet the same cached rows; a part is a share of those rows.
struct cutting {
    int64_t heads;          // query heads of a tile
    int64_t queries;        // query positions of a tile
    int64_t head_tiles;     // tiles per group of heads: 1 up to 64 heads
    int64_t query_tiles;
    int64_t n_tiles;
    int64_t key_tiles;
    int64_t n_parts;        // 1: each tile meets all rows; more: partial results are merged in the order of the parts
    int64_t ld;             // floats from one output row to the next
    size_t  thread_bytes;   // scratch of one thread
    size_t  partial_bytes;  // all partial results

    int64_t rows() const { return heads*queries; }
    size_t  partial_floats() const { return ld + 2; }  // maximum, sum, values
};

// A split exists to occupy every thread equally: the least number of parts that gives each the same number of units.
int64_t choose_parts(int64_t n_tiles, int64_t key_tiles, int n_threads) {
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
    c.key_tiles   = std::max<int64_t>(1, ceil_div(k->ne[1], KEYS));
    c.n_parts     = choose_parts(c.n_tiles, c.key_tiles, n_threads);
    c.ld          = GGML_PAD(v->ne[0], 16);

    const size_t floats = KVARN_FA_ROWS*KEYS + KEYS + KEYS*c.ld + KVARN_FA_ROWS*c.ld;
    c.thread_bytes  = padded(floats*sizeof(float)) + padded(kvarn_fa_query_bytes(k->ne[0])) + padded(kvarn_fa_score_bytes(k->ne[0]));
    c.partial_bytes = c.n_parts == 1 ? 0 : padded(c.n_tiles*c.rows()*c.n_parts*c.partial_floats()*sizeof(float));
    return c;
}

size_t work_bytes(const cutting & c, int n_threads) {
    return CACHE_LINE_SIZE + n_threads*c.thread_bytes + c.partial_bytes;
}

bool is_convertible(ggml_type type) {
    return type == GGML_TYPE_F32 || ggml_get_type_traits(type)->to_float != nullptr;
}

bool is_ours(const ggml_tensor * dst) {
    const ggml_tensor * q = dst->src[0];
    const ggml_tensor * k = dst->src[1];
    const ggml_tensor * v = dst->src[2];
    // An f16 or f32 cache stays with upstream, to the byte.
    const bool has_our_types  = ggml_is_quantized(k->type) || ggml_is_quantized(v->type);
    const bool has_one_group  = k->ne[2] == v->ne[2] && k->ne[3] == v->ne[3] && q->ne[2] % k->ne[2] == 0 && q->ne[3] % k->ne[3] == 0;
    const bool has_whole_rows = q->nb[0] == sizeof(float) && k->nb[0] == ggml_type_size(k->type) && v->nb[0] == ggml_type_size(v->type);
    const bool fits_distances = k->nb[1] < (1u << 26);  // 16 rows from the first one, in 32 bits
    return has_our_types && has_one_group && has_whole_rows && fits_distances && q->type == GGML_TYPE_F32 && is_convertible(k->type) &&
        is_convertible(v->type);
}

struct softmax_rule {
    float scale;
    float softcap;
    float slope_base_low;
    float slope_base_high;
    uint32_t n_head_log2;
    bool has_slopes;

    explicit softmax_rule(const ggml_tensor * dst) {
        float max_bias;
        memcpy(&scale,    (const float *) dst->op_params + 0, sizeof(float));
        memcpy(&max_bias, (const float *) dst->op_params + 1, sizeof(float));
        memcpy(&softcap,  (const float *) dst->op_params + 2, sizeof(float));
        if (softcap != 0.0f) {
            scale /= softcap;
        }
        n_head_log2     = 1u << (uint32_t) floor(log2((double) dst->src[0]->ne[2]));
        slope_base_low  = powf(2.0f, -max_bias/n_head_log2);
        slope_base_high = powf(2.0f, -max_bias/2.0f/n_head_log2);
        has_slopes      = max_bias > 0.0f;
    }

    float slope(uint32_t head) const {
        if (!has_slopes) {
            return 1.0f;
        }
        return head < n_head_log2 ? powf(slope_base_low, head + 1) : powf(slope_base_high, 2*(head - n_head_log2) + 1);
    }
};

enum class mask_kind { OPEN, CLOSED, MIXED };

// 64 mask values at once: nearly every tile of a causal or windowed mask is all zeros or all -inf.
mask_kind kind_of(const ggml_fp16_t * mask, int n) {
    if (n % 4 != 0) {
        return mask_kind::MIXED;
    }
    uint64_t ones  = ~0ull;
    uint64_t zeros = 0;
    for (int i = 0; i < n; i += 4) {
        uint64_t four;
        memcpy(&four, mask + i, sizeof(four));
        ones  &= ~(four ^ 0xFC00FC00FC00FC00ull);  // half -inf
        zeros |= four;
    }
    return zeros == 0 ? mask_kind::OPEN : ones == ~0ull ? mask_kind::CLOSED : mask_kind::MIXED;
}

float max_of(const float * x) {
    float lane[16];
    memcpy(lane, x, sizeof(lane));
    for (int i = 16; i < KEYS; i += 16) {
        for (int j = 0; j < 16; j++) {
            lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j];
        }
    }
    float top = lane[0];
    for (int j = 1; j < 16; j++) {
        top = lane[j] > top ? lane[j] : top;
    }
    return top;
}

// x = exp(x - top), returns the sum.
float exponentials(float * x, float top) {
#if defined(__AVX512F__) && defined(__AVX512DQ__)
    __m512 sum = _mm512_setzero_ps();
    for (int i = 0; i < KEYS; i += 16) {
        const __m512 e = ggml_v_expf(_mm512_sub_ps(_mm512_loadu_ps(x + i), _mm512_set1_ps(top)));
        _mm512_storeu_ps(x + i, e);
        sum = _mm512_add_ps(sum, e);
    }
    return _mm512_reduce_add_ps(sum);
#else
    return (float) ggml_vec_soft_max_f32(KEYS, x, x, top);
#endif
}

// One tile of one thread: its scratch, its place in the tensors and the running softmax of its rows.
class tile {
  public:
    tile(const ggml_tensor * node, const cutting & cuts, const softmax_rule & softmax, char * scratch) :
        dst(node), c(cuts), rule(softmax) {
        scores   = (float *) scratch;
        mask32   = scores + KVARN_FA_ROWS*KEYS;
        unpacked = mask32 + KEYS;
        out      = unpacked + KEYS*c.ld;
        char * rest = scratch + padded((out + KVARN_FA_ROWS*c.ld - scores)*sizeof(float));
        queries.memory = rest;
        transposed     = (float *) (rest + padded(kvarn_fa_query_bytes(dst->src[1]->ne[0])));
    }

    // Sum over the cached rows of key tiles first .. last-1.
    void attend(int64_t index, int64_t first, int64_t last) {
        place(index);
        take_queries();
        memset(out, 0, n_rows*c.ld*sizeof(float));
        std::fill_n(top, n_rows, -INFINITY);
        std::fill_n(sum, n_rows, 0.0f);
        const int64_t n_keys = dst->src[1]->ne[1];
        for (int64_t key = first*KEYS; key < std::min(last*KEYS, n_keys); key += KEYS) {
            meet(key, (int) std::min<int64_t>(KEYS, n_keys - key));
        }
    }

    void write_partial(float * partials, int64_t part) const {
        for (int64_t row = 0; row < n_rows; row++) {
            float * p = partials + (row*c.n_parts + part)*c.partial_floats();
            p[0] = top[row];
            p[1] = sum[row];
            memcpy(p + 2, out + row*c.ld, c.ld*sizeof(float));
        }
    }

    // The parts of a row, always in the same order: the result does not depend on which thread was first.
    void merge(int64_t index, const float * partials) {
        place(index);
        for (int64_t row = 0; row < n_rows; row++) {
            top[row] = -INFINITY;
            sum[row] = 0.0f;
            memset(out + row*c.ld, 0, c.ld*sizeof(float));
            for (int64_t part = 0; part < c.n_parts; part++) {
                const float * p = partials + (row*c.n_parts + part)*c.partial_floats();
                if (p[1] == 0.0f) {
                    continue;
                }
                const float higher = std::max(top[row], p[0]);
                const float old_weight = expf(top[row] - higher);
                const float new_weight = expf(p[0] - higher);
                for (int64_t d = 0; d < c.ld; d++) {
                    out[row*c.ld + d] = out[row*c.ld + d]*old_weight + p[2 + d]*new_weight;
                }
                sum[row] = sum[row]*old_weight + p[1]*new_weight;
                top[row] = higher;
            }
        }
        write();
    }

    // Sinks, the division by the sum, and the output rows.
    void write() {
        const ggml_tensor * sinks = dst->src[4];
        for (int64_t row = 0; row < n_rows; row++) {
            float weight = 1.0f;
            float total  = sum[row];
            if (sinks) {
                const float sink   = ((const float *) sinks->data)[head_of(row)];
                const float higher = std::max(top[row], sink);
                weight = expf(top[row] - higher);
                total  = total*weight + expf(sink - higher);
            }
            const float factor = total == 0.0f ? 0.0f : weight/total;
            float * y = (float *) ((char *) dst->data + head_of(row)*dst->nb[1] + query_of(row)*dst->nb[2] + i3*dst->nb[3]);
            for (int64_t d = 0; d < dst->ne[0]; d++) {
                y[d] = out[row*c.ld + d]*factor;
            }
        }
    }

  private:
    const ggml_tensor  * dst;
    const cutting      & c;
    const softmax_rule & rule;

    int64_t i3, kv_head, head0, n_heads, query0, n_rows;

    float * scores;
    float * mask32;
    float * unpacked;
    float * out;
    float * transposed;
    kvarn_fa_queries queries;
    float top[KVARN_FA_ROWS];
    float sum[KVARN_FA_ROWS];

    // Rows of a tile: the heads of one query, then those of the next, so neighbours share a mask row.
    int64_t head_of (int64_t row) const { return head0 + row % n_heads; }
    int64_t query_of(int64_t row) const { return query0 + row / n_heads; }

    void place(int64_t index) {
        const ggml_tensor * q = dst->src[0];
        const int64_t group = q->ne[2]/dst->src[1]->ne[2];
        const int64_t query_tile = index % c.query_tiles;
        index /= c.query_tiles;
        const int64_t head_tile = index % c.head_tiles;
        index /= c.head_tiles;
        kv_head = index % dst->src[1]->ne[2];
        i3      = index / dst->src[1]->ne[2];
        head0   = kv_head*group + head_tile*c.heads;
        n_heads = std::min(c.heads, group - head_tile*c.heads);
        query0  = query_tile*c.queries;
        n_rows  = n_heads*std::min(c.queries, q->ne[1] - query0);
    }

    void take_queries() {
        const ggml_tensor * q = dst->src[0];
        const ggml_tensor * k = dst->src[1];
        queries.n_rows = (int) n_rows;
        queries.dk     = (int) k->ne[0];
        queries.kind   = kvarn_fa_query_kind(k->type, queries.n_rows, k->ne[0]);
        for (int64_t row = 0; row < n_rows; row++) {
            const char * from = (const char *) q->data + query_of(row)*q->nb[1] + head_of(row)*q->nb[2] + i3*q->nb[3];
            kvarn_fa_put_query(queries, k->type, (int) row, (const float *) from);
        }
    }

    kvarn_fa_cached cached(const ggml_tensor * t, int64_t key, int n) const {
        const int64_t t3 = i3/(dst->src[0]->ne[3]/t->ne[3]);
        return { t->type, (const char *) t->data + key*t->nb[1] + kv_head*t->nb[2] + t3*t->nb[3], t->nb[1], n };
    }

    const ggml_fp16_t * mask_row(int64_t row) const {
        const ggml_tensor * mask = dst->src[3];
        return (const ggml_fp16_t *) ((const char *) mask->data + query_of(row)*mask->nb[1] + (head_of(row) % mask->ne[2])*mask->nb[2] +
                                      (i3 % mask->ne[3])*mask->nb[3]);
    }

    bool is_closed(int64_t key, int n) const {
        const ggml_fp16_t * last = nullptr;
        for (int64_t row = 0; row < n_rows; row++) {
            const ggml_fp16_t * mask = mask_row(row) + key;
            if (mask != last && kind_of(mask, n) != mask_kind::CLOSED) {
                return false;
            }
            last = mask;
        }
        return true;
    }

    void meet(int64_t key, int n) {
        if (dst->src[3] && is_closed(key, n)) {
            return;
        }
        kvarn_fa_scores(queries, cached(dst->src[1], key, n), transposed, scores);
        const ggml_fp16_t * last = nullptr;
        mask_kind kind = mask_kind::OPEN;
        for (int64_t row = 0; row < n_rows; row++) {
            if (dst->src[3]) {
                const ggml_fp16_t * mask = mask_row(row) + key;
                if (mask != last) {
                    kind = kind_of(mask, n);
                    if (kind == mask_kind::MIXED) {
                        ggml_cpu_fp16_to_fp32(mask, mask32, n);
                    }
                    last = mask;
                }
            }
            weigh(row, n, kind);
        }
        kvarn_fa_add_values((int) n_rows, scores, cached(dst->src[2], key, n), dst->src[2]->ne[0], c.ld, unpacked, out);
    }

    // Turns the scores of a row into weights relative to the row's running maximum.
    void weigh(int64_t row, int n, mask_kind kind) {
        float * s = scores + row*KEYS;
        if (kind == mask_kind::CLOSED) {
            std::fill_n(s, KEYS, 0.0f);
            return;
        }
        for (int i = 0; i < KEYS; i++) {
            s[i] *= rule.scale;
        }
        if (rule.softcap != 0.0f) {
            for (int i = 0; i < n; i++) {
                s[i] = rule.softcap*tanhf(s[i]);
            }
        }
        if (kind == mask_kind::MIXED) {
            const float slope = rule.slope((uint32_t) head_of(row));
            for (int i = 0; i < n; i++) {
                s[i] += slope*mask32[i];
            }
        }
        std::fill_n(s + n, KEYS - n, -INFINITY);

        const float tile_top = max_of(s);
        if (tile_top == -INFINITY) {
            std::fill_n(s, KEYS, 0.0f);
            return;
        }
        if (tile_top > top[row]) {
            const float shrink = expf(top[row] - tile_top);
            ggml_vec_scale_f32((int) c.ld, out + row*c.ld, shrink);
            sum[row] *= shrink;
            top[row]  = tile_top;
        }
        sum[row] += exponentials(s, top[row]);
    }
};

// Every tile on its own: threads take the next one as they get free.
void attend_whole(const ggml_compute_params * params, const cutting & c, tile & t) {
    if (params->ith == 0) {
        ggml_threadpool_chunk_set(params->threadpool, params->nth);
    }
    ggml_barrier(params->threadpool);
    for (int64_t index = params->ith; index < c.n_tiles; index = ggml_threadpool_chunk_add(params->threadpool, 1)) {
        t.attend(index, 0, c.key_tiles);
        t.write();
    }
}

// Few tiles: each thread takes an equal share of tiles x parts, then an equal share of the merging.
void attend_in_parts(const ggml_compute_params * params, const cutting & c, tile & t, float * partials) {
    const int64_t n_units = c.n_tiles*c.n_parts;
    const size_t  stride  = c.rows()*c.n_parts*c.partial_floats();
    for (int64_t unit = params->ith*n_units/params->nth; unit < (params->ith + 1)*n_units/params->nth; unit++) {
        const int64_t part  = unit / c.n_tiles;
        const int64_t index = unit % c.n_tiles;
        t.attend(index, part*c.key_tiles/c.n_parts, (part + 1)*c.key_tiles/c.n_parts);
        t.write_partial(partials + index*stride, part);
    }
    ggml_barrier(params->threadpool);
    for (int64_t index = params->ith; index < c.n_tiles; index += params->nth) {
        t.merge(index, partials + index*stride);
    }
}

} // namespace

size_t kvarn_flash_attn_work_size(const ggml_tensor * dst, int n_tasks) {
    return is_ours(dst) ? work_bytes(cut(dst, n_tasks), n_tasks) : 0;
}

bool kvarn_maybe_flash_attn(const ggml_compute_params * params, ggml_tensor * dst) {
    if (params->use_ref || !is_ours(dst)) {
        return false;
    }
    cutting c = cut(dst, params->nth);
    if (work_bytes(c, params->nth) > params->wsize) {
        // fewer threads came than were planned for, and the split for them needs more room
        c.n_parts       = 1;
        c.partial_bytes = 0;
    }
    GGML_ASSERT(work_bytes(c, params->nth) <= params->wsize);

    char * work = (char *) GGML_PAD((uintptr_t) params->wdata, CACHE_LINE_SIZE);
    const softmax_rule rule(dst);
    tile t(dst, c, rule, work + params->ith*c.thread_bytes);
    if (c.n_parts == 1) {
        attend_whole(params, c, t);
    } else {
        attend_in_parts(params, c, t, (float *) (work + params->nth*c.thread_bytes));
    }
    return true;
}
