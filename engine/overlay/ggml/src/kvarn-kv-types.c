#define GGML_COMMON_DECL_C
#include "ggml-common.h"
#include "ggml-impl.h"

#include "kvarn-kv-types.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static_assert(sizeof(block_kvarn_tbq4_0)    == 66 && sizeof(block_kvarn_tbq4_0_64)    == 34, "wrong tbq4_0 block size");
static_assert(sizeof(block_kvarn_planar3_0) == 50 && sizeof(block_kvarn_planar3_0_64) == 26, "wrong planar3_0 block size");

static const int8_t tbq4_levels[16]        = KVARN_TBQ4_LEVELS;
static const float  tbq4_thresholds[7]     = KVARN_TBQ4_THRESHOLDS;
static const int8_t planar3_levels[8]      = KVARN_PLANAR3_LEVELS;
static const float  planar3_thresholds[3]  = KVARN_PLANAR3_THRESHOLDS;

struct codebook {
    const int8_t * levels;
    const float  * thresholds;
    int   n_levels;
    float per_sigma;
    float d_max;
};

static const struct codebook tbq4    = { tbq4_levels,    tbq4_thresholds,    16, KVARN_TBQ4_PER_SIGMA,    KVARN_TBQ4_D_MAX };
static const struct codebook planar3 = { planar3_levels, planar3_thresholds,  8, KVARN_PLANAR3_PER_SIGMA, KVARN_PLANAR3_D_MAX };

static float clean(float x) {
    if (x != x) {
        return 0.0f;
    }
    return x > KVARN_X_MAX ? KVARN_X_MAX : x < -KVARN_X_MAX ? -KVARN_X_MAX : x;
}

static double energy_of(const float * x, int n) {
    double sum[32] = { 0.0 };
    for (int j = 0; j < n; ++j) {
        const double v = clean(x[j]);
        sum[j % 32] += v*v;
    }
    for (int step = 16; step > 0; step /= 2) {
        for (int l = 0; l < step; ++l) {
            sum[l] += sum[l + step];
        }
    }
    return sum[0];
}

static uint8_t nearest(const struct codebook * book, float v) {
    const int half = book->n_levels/2;
    int index = half;
    for (int i = 0; i < half - 1; ++i) {
        index += fabsf(v) > book->thresholds[i];
    }
    return v < 0.0f ? book->n_levels - 1 - index : index;
}

// Fills index[0 .. n-1] and returns d; 0 says that the block is to be all zeros.
static ggml_half encode(const struct codebook * book, const float * x, int n, uint8_t * index) {
    const double norm  = sqrt(energy_of(x, n));
    const float  scale = (float) (book->per_sigma*sqrt((double) n)/norm);
    if (norm == 0.0) {
        return 0;
    }
    int level_energy = 0;
    for (int j = 0; j < n; ++j) {
        index[j] = nearest(book, clean(x[j])*scale);
        level_energy += book->levels[index[j]]*book->levels[index[j]];
    }
    const float d = (float) (norm/sqrt((double) level_energy));
    return GGML_FP32_TO_FP16(d < book->d_max ? d : book->d_max);
}

static void pack_nibbles(const uint8_t * index, int n, uint8_t * qs) {
    for (int g = 0; g < n/32; ++g) {
        for (int j = 0; j < 16; ++j) {
            qs[16*g + j] = index[32*g + j] | index[32*g + j + 16] << 4;
        }
    }
}

static void pack_planes(const uint8_t * index, int n, uint8_t * qs, uint8_t * qh) {
    memset(qs, 0, n/4);
    memset(qh, 0, n/8);
    for (int j = 0; j < n; ++j) {
        const int g = j/32, i = j%32;
        qs[8*g + i%8] |= (index[j] & 3) << 2*(i/8);
        qh[4*g + i/8] |= (index[j] >> 2) << i%8;
    }
}

static void unpack_nibbles(const uint8_t * qs, int n, float d, float * y) {
    for (int g = 0; g < n/32; ++g) {
        for (int j = 0; j < 16; ++j) {
            y[32*g + j]      = d*tbq4_levels[qs[16*g + j] & 15];
            y[32*g + j + 16] = d*tbq4_levels[qs[16*g + j] >> 4];
        }
    }
}

static void unpack_planes(const uint8_t * qs, const uint8_t * qh, int n, float d, float * y) {
    for (int j = 0; j < n; ++j) {
        const int g = j/32, i = j%32;
        const int low  = (qs[8*g + i%8] >> 2*(i/8)) & 3;
        const int high = (qh[4*g + i/8] >> i%8) & 1;
        y[j] = d*planar3_levels[low | high << 2];
    }
}

#define TBQ4_ROWS(name, qk)                                                                                           \
void kvarn_quantize_row_##name##_ref(const float * GGML_RESTRICT x, void * GGML_RESTRICT vy, int64_t k) {             \
    assert(k % qk == 0);                                                                                              \
    block_kvarn_##name * y = vy;                                                                                      \
    uint8_t index[qk];                                                                                                \
    for (int64_t i = 0; i < k/qk; ++i) {                                                                              \
        memset(&y[i], 0, sizeof(y[i]));                                                                               \
        y[i].d = encode(&tbq4, x + i*qk, qk, index);                                                                  \
        if (y[i].d != 0) {                                                                                            \
            pack_nibbles(index, qk, y[i].qs);                                                                         \
        }                                                                                                             \
    }                                                                                                                 \
}                                                                                                                     \
void kvarn_dequantize_row_##name(const void * GGML_RESTRICT vx, float * GGML_RESTRICT y, int64_t k) {                 \
    assert(k % qk == 0);                                                                                              \
    const block_kvarn_##name * x = vx;                                                                                \
    for (int64_t i = 0; i < k/qk; ++i) {                                                                              \
        unpack_nibbles(x[i].qs, qk, GGML_FP16_TO_FP32(x[i].d), y + i*qk);                                             \
    }                                                                                                                 \
}

#define PLANAR3_ROWS(name, qk)                                                                                        \
void kvarn_quantize_row_##name##_ref(const float * GGML_RESTRICT x, void * GGML_RESTRICT vy, int64_t k) {             \
    assert(k % qk == 0);                                                                                              \
    block_kvarn_##name * y = vy;                                                                                      \
    uint8_t index[qk];                                                                                                \
    for (int64_t i = 0; i < k/qk; ++i) {                                                                              \
        memset(&y[i], 0, sizeof(y[i]));                                                                               \
        y[i].d = encode(&planar3, x + i*qk, qk, index);                                                               \
        if (y[i].d != 0) {                                                                                            \
            pack_planes(index, qk, y[i].qs, y[i].qh);                                                                 \
        }                                                                                                             \
    }                                                                                                                 \
}                                                                                                                     \
void kvarn_dequantize_row_##name(const void * GGML_RESTRICT vx, float * GGML_RESTRICT y, int64_t k) {                 \
    assert(k % qk == 0);                                                                                              \
    const block_kvarn_##name * x = vx;                                                                                \
    for (int64_t i = 0; i < k/qk; ++i) {                                                                              \
        unpack_planes(x[i].qs, x[i].qh, qk, GGML_FP16_TO_FP32(x[i].d), y + i*qk);                                     \
    }                                                                                                                 \
}

TBQ4_ROWS(tbq4_0,          KVARN_QK)
TBQ4_ROWS(tbq4_0_64,       KVARN_QK_64)
PLANAR3_ROWS(planar3_0,    KVARN_QK)
PLANAR3_ROWS(planar3_0_64, KVARN_QK_64)

bool kvarn_validate_row(enum ggml_type type, const void * data, size_t n_bytes) {
    const size_t size = ggml_type_size(type);
    for (size_t offset = 0; offset < n_bytes; offset += size) {
        ggml_half d; // first in every block
        memcpy(&d, (const char *) data + offset, sizeof(d));
        if ((d & 0x7c00) == 0x7c00) {
            GGML_LOG_ERROR("%s: the scale of %s block %zu is not finite\n", __func__, ggml_type_name(type), offset/size);
            return false;
        }
    }
    return true;
}
