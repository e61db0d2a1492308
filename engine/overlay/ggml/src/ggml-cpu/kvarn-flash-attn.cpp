#include "kvarn-flash-attn.h"

#include "kvarn-flash-attn-cut.h"
#include "kvarn-flash-attn-softmax.h"
#include "kvarn-flash-attn-tile.h"

#include "ggml-cpu-impl.h"
#include "ggml-cpu.h"
#include "ggml-impl.h"
#include "ops.h"
#include "simd-mappings.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace kvarn_fa;

namespace {

constexpr int KEYS = KVARN_FA_KEYS;

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
            const bool may_be = mask[0] == 0xFC00;  // half -inf; a decode step sees at once that its tile is not
            if (mask != last && (!may_be || kind_of(mask, n) != mask_kind::CLOSED)) {
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
            const row_mask row_mask = { kind, mask32, kind == mask_kind::MIXED ? rule.slope((uint32_t) head_of(row)) : 1.0f };
            running_softmax state = { top[row], sum[row], out + row*c.ld, c.ld };
            weigh(rule, row_mask, n, scores + row*KEYS, state);
        }
        kvarn_fa_add_values((int) n_rows, scores, cached(dst->src[2], key, n), dst->src[2]->ne[0], c.ld, unpacked, out);
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
