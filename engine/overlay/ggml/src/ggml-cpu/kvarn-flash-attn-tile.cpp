#include "kvarn-flash-attn-tile.h"

#include "kvarn-flash-attn-few-values.h"
#include "kvarn-flash-attn-multiply.h"
#include "kvarn-flash-attn-packed.h"
#include "kvarn-flash-attn-paired.h"
#include "kvarn-flash-attn-unpack.h"

#include "ggml-cpu.h"
#include "ggml-impl.h"

#include <cstring>

size_t kvarn_fa_query_bytes(int64_t dk) {
    return KVARN_FA_ROWS*dk*sizeof(float);  // f32 is the largest of the forms
}

size_t kvarn_fa_score_bytes(int64_t dk) {
    return (KVARN_FA_KEYS + 1)*dk*sizeof(float);  // a transposed tile of keys and one row
}

kvarn_fa_queries::kind_t kvarn_fa_query_kind(ggml_type key_type, int n_rows, int64_t dk) {
    if (kvarn_fa_can_pack(key_type, dk)) {
        return kvarn_fa_queries::PACKED;
    }
    if (n_rows >= KVARN_FA_FEW_ROWS) {
        return kvarn_fa_queries::PLAIN;
    }
    if (kvarn_fa_can_pair(key_type, dk)) {
        return kvarn_fa_queries::PAIRED;
    }
    return ggml_get_type_traits_cpu(key_type)->vec_dot ? kvarn_fa_queries::DOTTED : kvarn_fa_queries::PLAIN;
}

void kvarn_fa_put_query(const kvarn_fa_queries & queries, ggml_type key_type, int row, const float * values) {
    switch (queries.kind) {
        case kvarn_fa_queries::PACKED:
            kvarn_fa_put_packed(queries, row, values);
            break;
        case kvarn_fa_queries::PAIRED:
            kvarn_fa_put_paired(queries, row, values);
            break;
        case kvarn_fa_queries::DOTTED: {
            const ggml_type to = ggml_get_type_traits_cpu(key_type)->vec_dot_type;
            char * q = queries.memory + row*queries.dk*sizeof(float);
            if (to == GGML_TYPE_F32) {
                memcpy(q, values, queries.dk*sizeof(float));
            } else {
                ggml_get_type_traits_cpu(to)->from_float(values, q, queries.dk);
            }
        } break;
        case kvarn_fa_queries::PLAIN:
            memcpy(queries.memory + row*queries.dk*sizeof(float), values, queries.dk*sizeof(float));
            break;
    }
}

static void dotted_scores(const kvarn_fa_queries & queries, const kvarn_fa_cached & keys, float * scores) {
    const ggml_vec_dot_t dot = ggml_get_type_traits_cpu(keys.type)->vec_dot;
    for (int key = 0; key < keys.n; key++) {
        for (int m = 0; m < queries.n_rows; m++) {
            const char * q = queries.memory + m*queries.dk*sizeof(float);
            dot(queries.dk, scores + m*KVARN_FA_KEYS + key, 0, keys.data + key*keys.stride, 0, q, 0, 1);
        }
    }
}

static void plain_scores(const kvarn_fa_queries & queries, const kvarn_fa_cached & keys, float * scratch, float * scores) {
    const int dk = queries.dk;
    float * row = scratch + KVARN_FA_KEYS*dk;
    if (keys.n < KVARN_FA_KEYS) {
        memset(scratch, 0, KVARN_FA_KEYS*dk*sizeof(float));
    }
    const ggml_to_float_t unpack = kvarn_fa_unpacker(keys.type);
    for (int key = 0; key < keys.n; key++) {
        unpack(keys.data + key*keys.stride, row, dk);
        for (int d = 0; d < dk; d++) {
            scratch[d*KVARN_FA_KEYS + key] = row[d];
        }
    }
    memset(scores, 0, queries.n_rows*KVARN_FA_KEYS*sizeof(float));
    kvarn_fa_multiply(scores, KVARN_FA_KEYS, (const float *) queries.memory, dk, scratch, KVARN_FA_KEYS, queries.n_rows, dk, KVARN_FA_KEYS);
}

void kvarn_fa_scores(const kvarn_fa_queries & queries, const kvarn_fa_cached & keys, float * scratch, float * scores) {
    switch (queries.kind) {
        case kvarn_fa_queries::PACKED: kvarn_fa_packed_scores(queries, keys, scores); break;
        case kvarn_fa_queries::PAIRED: kvarn_fa_paired_scores(queries, keys, scores); break;
        case kvarn_fa_queries::DOTTED: dotted_scores(queries, keys, scores); break;
        case kvarn_fa_queries::PLAIN:  plain_scores(queries, keys, scratch, scores); break;
    }
}

void kvarn_fa_add_values(int n_rows, const float * weights, const kvarn_fa_cached & values, int64_t dv, int64_t ld, float * unpacked, float * out) {
    if (kvarn_fa_can_add_few(values.type, n_rows, dv)) {
        kvarn_fa_add_few_values(n_rows, weights, values, dv, ld, out);
        return;
    }
    // A step of values stays in the first-level cache between unpacking and use.
    const ggml_to_float_t unpack = kvarn_fa_unpacker(values.type);
    const int step = ld <= 128 ? KVARN_FA_KEYS : KVARN_FA_KEYS/4;
    for (int first = 0; first < values.n; first += step) {
        const int n = MIN(step, values.n - first);
        for (int key = 0; key < n; key++) {
            unpack(values.data + (first + key)*values.stride, unpacked + key*ld, dv);
        }
        kvarn_fa_multiply(out, ld, weights + first, KVARN_FA_KEYS, unpacked, ld, n_rows, n, ld);
    }
}
