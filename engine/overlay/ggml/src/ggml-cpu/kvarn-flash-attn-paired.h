// Paired queries: few query rows against keys that AVX2 decodes 64 values at a time, once for all rows. Four keys are met
// together, so that their sums across lanes share instructions. For CPUs that cannot pack (kvarn-flash-attn-packed.h).

#pragma once

#include "kvarn-flash-attn-tile.h"

// Can keys of this type meet queries in pairs of groups here? If not, the other two must not be called.
bool kvarn_fa_can_pair(ggml_type key_type, int64_t dk);

// Query row number row (dk floats) in paired form.
void kvarn_fa_put_paired(const kvarn_fa_queries & queries, int row, const float * values);

// As kvarn_fa_scores.
void kvarn_fa_paired_scores(const kvarn_fa_queries & queries, const kvarn_fa_cached & keys, float * scores);
