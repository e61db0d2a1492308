#pragma once

// The reference search of a trellis code; kvarn-kv-trellis.h says what it has to find.

#include <stdint.h>

struct kvarn_trellis {
    const int8_t * levels; // [e][w][rank]
    int bits;              // of a symbol
    int ring;              // values that form a circle
};

// The symbols of the path nearest to ring values q, which are in units of 1/KVARN_TRELLIS_FRACTION of a level.
void kvarn_trellis_search(const struct kvarn_trellis * code, const int32_t * q, uint8_t * symbol);

// Where in levels the symbols of a ring point.
void kvarn_trellis_indices(const struct kvarn_trellis * code, const uint8_t * symbol, uint8_t * index);
