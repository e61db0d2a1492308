#include "kvarn-flash-attn-softmax.h"

#include "ggml-cpu-impl.h"
#include "ggml-impl.h"
#include "vec.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace kvarn_fa {


softmax_rule::softmax_rule(const ggml_tensor * dst) {
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

float softmax_rule::slope(uint32_t head) const {
    if (!has_slopes) {
        return 1.0f;
    }
    return head < n_head_log2 ? powf(slope_base_low, head + 1) : powf(slope_base_high, 2*(head - n_head_log2) + 1);
}

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

static float max_of(const float * x) {
    float lane[16];
    memcpy(lane, x, sizeof(lane));
    for (int i = 16; i < KVARN_FA_KEYS; i += 16) {
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
static float exponentials(float * x, float top) {
#if defined(__AVX512F__) && defined(__AVX512DQ__)
    __m512 sum = _mm512_setzero_ps();
    for (int i = 0; i < KVARN_FA_KEYS; i += 16) {
        const __m512 e = ggml_v_expf(_mm512_sub_ps(_mm512_loadu_ps(x + i), _mm512_set1_ps(top)));
        _mm512_storeu_ps(x + i, e);
        sum = _mm512_add_ps(sum, e);
    }
    return _mm512_reduce_add_ps(sum);
#else
    return (float) ggml_vec_soft_max_f32(KVARN_FA_KEYS, x, x, top);
#endif
}

void weigh(const softmax_rule & rule, const row_mask & mask, int n, float * s, running_softmax & row) {
    if (mask.kind == mask_kind::CLOSED) {
        std::fill_n(s, KVARN_FA_KEYS, 0.0f);
        return;
    }
    for (int i = 0; i < KVARN_FA_KEYS; i++) {
        s[i] *= rule.scale;
    }
    if (rule.softcap != 0.0f) {
        for (int i = 0; i < n; i++) {
            s[i] = rule.softcap*tanhf(s[i]);
        }
    }
    if (mask.kind == mask_kind::MIXED) {
        for (int i = 0; i < n; i++) {
            s[i] += mask.slope*mask.values[i];
        }
    }
    std::fill_n(s + n, KVARN_FA_KEYS - n, -INFINITY);

    const float tile_top = max_of(s);
    if (tile_top == -INFINITY) {
        std::fill_n(s, KVARN_FA_KEYS, 0.0f);
        return;
    }
    if (tile_top > row.top) {
        const float shrink = expf(row.top - tile_top);
        ggml_vec_scale_f32((int) row.n_out, row.out, shrink);
        row.sum *= shrink;
        row.top  = tile_top;
    }
    row.sum += exponentials(s, row.top);
}

} // namespace kvarn_fa
