// How one attention node is shared out over threads.

#pragma once

#include "ggml.h"

#include <cstddef>
#include <cstdint>

namespace kvarn_fa {

// A tile is the queries x heads that meet the same cached rows; a part is a share of those rows.
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

cutting cut(const ggml_tensor * dst, int n_threads);

// Of the work buffer, for all threads together.
size_t work_bytes(const cutting & c, int n_threads);

size_t padded(size_t bytes);  // to whole cache lines

} // namespace kvarn_fa
