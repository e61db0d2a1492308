// Packed keys: 16 keys in the 16 lanes of a register, 4 values of each per 32-bit lane, so one dpbusd serves 64 products and
// the sum over the head size needs no step across lanes. AVX-512 VNNI only.

#pragma once

#include "kvarn-flash-attn-tile.h"

// Can keys of this type meet queries in packed form here? If not, the other two must not be called.
bool kvarn_fa_can_pack(ggml_type key_type, int64_t dk);

// Query row number row (dk floats) in packed form.
void kvarn_fa_put_packed(const kvarn_fa_queries & queries, int row, const float * values);

// As kvarn_fa_scores.
void kvarn_fa_packed_scores(const kvarn_fa_queries & queries, const kvarn_fa_cached & keys, float * scores);
