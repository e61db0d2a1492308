// The running softmax of one query row over tiles of KVARN_FA_KEYS cached rows.

#pragma once

#include "kvarn-flash-attn-tile.h"

namespace kvarn_fa {

struct softmax_rule {
    float scale;
    float softcap;
    float slope_base_low;
    float slope_base_high;
    uint32_t n_head_log2;
    bool has_slopes;

    explicit softmax_rule(const ggml_tensor * dst);

    float slope(uint32_t head) const;
};

enum class mask_kind { OPEN, CLOSED, MIXED };

// 64 mask values at once: nearly every tile of a causal or windowed mask is all zeros or all -inf.
mask_kind kind_of(const ggml_fp16_t * mask, int n);

struct row_mask {
    mask_kind     kind;
    const float * values;  // read for MIXED only
    float         slope;   // of the row's head
};

// Out of earlier tiles: the greatest score, the sum of the weights relative to it, and the weighted values.
struct running_softmax {
    float & top;
    float & sum;
    float * out;
    int64_t n_out;
};

// Turns the scores of a row with n keys into weights relative to the row's greatest score; keys beyond n get 0.
void weigh(const softmax_rule & rule, const row_mask & mask, int n, float * scores, running_softmax & row);

} // namespace kvarn_fa
