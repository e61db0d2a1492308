// The arithmetic of one attention tile: up to 64 query rows against up to 64 cached rows, f32 in between.

#pragma once

#include "ggml.h"

#include <cstdint>

constexpr int KVARN_FA_ROWS = 64;  // query rows of a tile: queries x heads of one group
constexpr int KVARN_FA_KEYS = 64;  // cached rows of a tile

// Below this many query rows, unpacking a cached row to f32 costs more than it saves.
constexpr int KVARN_FA_FEW_ROWS = 8;

// Cached rows of one KV head: n rows of the given type, stride bytes apart.
struct kvarn_fa_cached {
    ggml_type    type;
    const char * data;
    size_t       stride;
    int          n;
};

// What a tile of queries looks like to the kernel that meets the keys. `memory` holds n_rows * row_bytes.
struct kvarn_fa_queries {
    enum kind_t {
        PACKED,  // int8, one scale and one correction per 32 values (AVX-512 VNNI)
        PAIRED,  // int8, two groups of 32 values to two registers (AVX2), few rows only
        DOTTED,  // each row in the key type's vec_dot_type
        PLAIN,   // f32
    };
    kind_t kind;
    int    n_rows;
    int    dk;
    char * memory;
};

// Bytes of kvarn_fa_queries::memory and of the scratch of kvarn_fa_scores, for the largest tile.
size_t kvarn_fa_query_bytes(int64_t dk);
size_t kvarn_fa_score_bytes(int64_t dk);

// Which kernel meets keys of this type with so many query rows.
kvarn_fa_queries::kind_t kvarn_fa_query_kind(ggml_type key_type, int n_rows, int64_t dk);

// Writes query row number row (dk floats) into queries.memory in the kernel's own form.
void kvarn_fa_put_query(const kvarn_fa_queries & queries, ggml_type key_type, int row, const float * values);

// scores[row * KVARN_FA_KEYS + key] = queries . keys, unscaled. Scores of keys at and beyond keys.n are finite or left as they are.
void kvarn_fa_scores(const kvarn_fa_queries & queries, const kvarn_fa_cached & keys, float * scratch, float * scores);

// out[row * ld + d] += sum over keys of weights[row * KVARN_FA_KEYS + key] * values[key][d].
// ld is dv rounded up to 16; unpacked is scratch of KVARN_FA_KEYS * ld floats.
void kvarn_fa_add_values(int n_rows, const float * weights, const kvarn_fa_cached & values, int64_t dv, int64_t ld, float * unpacked, float * out);
