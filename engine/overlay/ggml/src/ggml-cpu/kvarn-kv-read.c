#define GGML_COMMON_DECL_C
#include "ggml-common.h"

#include "ggml-cpu-impl.h"
#include "simd-mappings.h"

#include "kvarn-kv-cpu.h"
#include "kvarn-kv-groups.h"

#include <assert.h>

#define DEFINE_READERS(name, qk, GROUP)                                                              \
KVARN_VEC_DOT(name) {                                                                                \
    assert(n % qk == 0);                                                                             \
    assert(nrc == 1);                                                                                \
    GGML_UNUSED(nrc);                                                                                \
    GGML_UNUSED(bs);                                                                                 \
    GGML_UNUSED(bx);                                                                                 \
    GGML_UNUSED(by);                                                                                 \
    const block_kvarn_##name * x = vx;                                                               \
    const block_q8_0         * y = vy;                                                               \
    sums_t total = SUMS_ZERO;                                                                        \
    for (int i = 0; i < n/qk; ++i) {                                                                 \
        sums_t sums = SUMS_ZERO;                                                                     \
        for (int g = 0; g < qk/32; ++g) {                                                            \
            sums = SUMS_ADD(sums, dot_group(GROUP, y + i*(qk/32) + g));                              \
        }                                                                                            \
        total = SUMS_SCALE_ADD(total, sums, GGML_CPU_FP16_TO_FP32(x[i].d));                          \
    }                                                                                                \
    *s = sum_of(total);                                                                              \
}                                                                                                    \
static void read_row_##name(const void * GGML_RESTRICT vx, float * GGML_RESTRICT y, int64_t k) {     \
    assert(k % qk == 0);                                                                             \
    const block_kvarn_##name * x = vx;                                                               \
    for (int64_t i = 0; i < k/qk; ++i) {                                                             \
        const float d = GGML_CPU_FP16_TO_FP32(x[i].d);                                               \
        for (int g = 0; g < qk/32; ++g) {                                                            \
            store_scaled(y + i*qk + 32*g, GROUP, d);                                                 \
        }                                                                                            \
    }                                                                                                \
}

DEFINE_READERS(tbq4_0,       KVARN_QK,    tbq4_group(x[i].qs + 16*g))
DEFINE_READERS(tbq4_0_64,    KVARN_QK_64, tbq4_group(x[i].qs + 16*g))
DEFINE_READERS(planar3_0,    KVARN_QK,    planar3_group(x[i].qs + 8*g, x[i].qh + 4*g))
DEFINE_READERS(planar3_0_64, KVARN_QK_64, planar3_group(x[i].qs + 8*g, x[i].qh + 4*g))
DEFINE_READERS(tcq4_0,       KVARN_QK,    tcq4_group(x[i].qs + 16*g))
DEFINE_READERS(tcq4_0_64,    KVARN_QK_64, tcq4_group(x[i].qs + 16*g))
DEFINE_READERS(tcq3_0,       KVARN_QK,    tcq3_group(x[i].qs + 8*g, x[i].qh + 4*g))
DEFINE_READERS(tcq3_0_64,    KVARN_QK_64, tcq3_group(x[i].qs + 8*g, x[i].qh + 4*g))

ggml_to_float_t kvarn_to_float(enum ggml_type type) {
    switch (type) {
        case GGML_TYPE_KVARN_TBQ4_0:       return read_row_tbq4_0;
        case GGML_TYPE_KVARN_TBQ4_0_64:    return read_row_tbq4_0_64;
        case GGML_TYPE_KVARN_PLANAR3_0:    return read_row_planar3_0;
        case GGML_TYPE_KVARN_PLANAR3_0_64: return read_row_planar3_0_64;
        case GGML_TYPE_KVARN_TCQ4_0:       return read_row_tcq4_0;
        case GGML_TYPE_KVARN_TCQ4_0_64:    return read_row_tcq4_0_64;
        case GGML_TYPE_KVARN_TCQ3_0:       return read_row_tcq3_0;
        case GGML_TYPE_KVARN_TCQ3_0_64:    return read_row_tcq3_0_64;
        default:                           return ggml_get_type_traits(type)->to_float;
    }
}
