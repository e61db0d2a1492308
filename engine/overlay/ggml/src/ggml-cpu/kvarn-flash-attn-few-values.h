// Values for few query rows: the levels of a cached row meet the weights, which have its scale, and no row of f32 is written.
// AVX-512 keeps the levels in registers (kvarn-flash-attn-level-values.cpp), AVX2 as int8 (kvarn-flash-attn-paired-values.cpp).

#pragma once

#include "kvarn-flash-attn-tile.h"

// Can values of this type be added so here? If not, the other must not be called.
bool kvarn_fa_can_add_few(ggml_type type, int n_rows, int64_t dv);

// As kvarn_fa_add_values.
void kvarn_fa_add_few_values(int n_rows, const float * weights, const kvarn_fa_cached & values, int64_t dv, int64_t ld, float * out);
