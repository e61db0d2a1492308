#define GGML_COMMON_DECL_C
#include "ggml-common.h"
#include "ggml-impl.h"

#include "kvarn-kv-trellis-search.h"
#include "kvarn-kv-types.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

static_assert(sizeof(block_kvarn_tbq4_0)    == 66 && sizeof(block_kvarn_tbq4_0_64)    == 34, "wrong tbq4_0 block size");
static_assert(sizeof(block_kvarn_planar3_0) == 50 && sizeof(block_kvarn_planar3_0_64) == 26, "wrong planar3_0 block size");

static const int8_t tbq4_levels[16]        = KVARN_TBQ4_LEVELS;
static const float  tbq4_thresholds[7]     = KVARN_TBQ4_THRESHOLDS;
static const int8_t planar3_levels[8]      = KVARN_PLANAR3_LEVELS;
static const float  planar3_thresholds[3]  = KVARN_PLANAR3_THRESHOLDS;
static const int8_t tcq4_levels[32]        = KVARN_TCQ4_LEVELS;
static const int8_t tcq3_levels[16]        = KVARN_TCQ3_LEVELS;

struct codebook {
    const int8_t * levels;
    const float  * thresholds; // null with a trellis
    int   bits;                // of a symbol
    int   ring;                // values whose symbols depend on each other: 1 without a trellis
    float per_sigma;
    float d_max;
};

static const struct codebook tbq4    = { tbq4_levels,    tbq4_thresholds,    4, 1, KVARN_TBQ4_PER_SIGMA,    KVARN_TBQ4_D_MAX };
static const struct codebook planar3 = { planar3_levels, planar3_thresholds, 3, 1, KVARN_PLANAR3_PER_SIGMA, KVARN_PLANAR3_D_MAX };
static const struct codebook tcq4    = { tcq4_levels, NULL, 4, KVARN_TCQ4_RING, KVARN_TCQ4_PER_SIGMA, KVARN_TCQ4_D_MAX };
static const struct codebook tcq3    = { tcq3_levels, NULL, 3, KVARN_TCQ3_RING, KVARN_TCQ3_PER_SIGMA, KVARN_TCQ3_D_MAX };

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

//
// symbols of n values, and the levels they stand for
//

static uint8_t nearest(const struct codebook * book, float v) {
    const int half = 1 << (book->bits - 1);
    int index = half;
    for (int i = 0; i < half - 1; ++i) {
        index += fabsf(v) > book->thresholds[i];
    }
    return v < 0.0f ? 2*half - 1 - index : index;
}

static void find_symbols(const struct codebook * book, const float * x, int n, double norm, uint8_t * symbol) {
    const double factor = book->per_sigma*sqrt((double) n)/norm;
    if (book->thresholds) {
        const float scale = (float) factor;
        for (int j = 0; j < n; ++j) {
            symbol[j] = nearest(book, clean(x[j])*scale);
        }
        return;
    }
    const struct kvarn_trellis code = { book->levels, book->bits, book->ring };
    const double fine  = KVARN_TRELLIS_FRACTION*factor;
    const float  scale = fine < FLT_MAX ? (float) fine : FLT_MAX;
    int32_t q[KVARN_QK];
    for (int j = 0; j < n; ++j) {
        q[j] = (int32_t) lrintf(clean(x[j])*scale);
    }
    for (int j = 0; j < n; j += book->ring) {
        kvarn_trellis_search(&code, q + j, symbol + j);
    }
}

static void find_levels(const struct codebook * book, const uint8_t * symbol, int n, int8_t * level) {
    uint8_t index[KVARN_QK];
    if (book->thresholds) {
        memcpy(index, symbol, n);
    } else {
        const struct kvarn_trellis code = { book->levels, book->bits, book->ring };
        for (int j = 0; j < n; j += book->ring) {
            kvarn_trellis_indices(&code, symbol + j, index + j);
        }
    }
    for (int j = 0; j < n; ++j) {
        level[j] = book->levels[index[j]];
    }
}

//
// symbols in their places
//

static void pack(int bits, const uint8_t * symbol, int n, uint8_t * qs) {
    uint8_t * qh = qs + n/4;
    memset(qs, 0, n*bits/8);
    for (int j = 0; j < n; ++j) {
        const int g = j/32, i = j%32;
        if (bits == 4) {
            qs[16*g + i%16] |= symbol[j] << 4*(i/16);
        } else {
            qs[8*g + i%8] |= (symbol[j] & 3) << 2*(i/8);
            qh[4*g + i/8] |= (symbol[j] >> 2) << i%8;
        }
    }
}

static void unpack(int bits, const uint8_t * qs, int n, uint8_t * symbol) {
    const uint8_t * qh = qs + n/4;
    for (int j = 0; j < n; ++j) {
        const int g = j/32, i = j%32;
        if (bits == 4) {
            symbol[j] = (qs[16*g + i%16] >> 4*(i/16)) & 15;
        } else {
            symbol[j] = ((qs[8*g + i%8] >> 2*(i/8)) & 3) | ((qh[4*g + i/8] >> i%8) & 1) << 2;
        }
    }
}

//
// rows of blocks: an fp16 scale, then the packed symbols of n values
//

static ggml_half write_symbols(const struct codebook * book, const float * x, int n, uint8_t * qs) {
    const double norm = sqrt(energy_of(x, n));
    if (norm == 0.0) {
        return 0;
    }
    uint8_t symbol[KVARN_QK];
    int8_t  level[KVARN_QK];
    find_symbols(book, x, n, norm, symbol);
    find_levels(book, symbol, n, level);
    int level_energy = 0;
    for (int j = 0; j < n; ++j) {
        level_energy += level[j]*level[j];
    }
    pack(book->bits, symbol, n, qs);
    const float d = (float) (norm/sqrt((double) level_energy));
    return GGML_FP32_TO_FP16(d < book->d_max ? d : book->d_max);
}

static void quantize_row(const struct codebook * book, const float * x, uint8_t * y, int64_t k, int n) {
    assert(k % n == 0);
    const size_t size = sizeof(ggml_half) + n*book->bits/8;
    for (; k > 0; k -= n, x += n, y += size) {
        const ggml_half d = write_symbols(book, x, n, y + sizeof(d));
        memcpy(y, &d, sizeof(d));
        if (d == 0) {
            memset(y, 0, size);
        }
    }
}

static void dequantize_row(const struct codebook * book, const uint8_t * x, float * y, int64_t k, int n) {
    assert(k % n == 0);
    const size_t size = sizeof(ggml_half) + n*book->bits/8;
    for (; k > 0; k -= n, x += size, y += n) {
        uint8_t   symbol[KVARN_QK];
        int8_t    level[KVARN_QK];
        ggml_half half;
        memcpy(&half, x, sizeof(half));
        unpack(book->bits, x + sizeof(half), n, symbol);
        find_levels(book, symbol, n, level);
        const float d = GGML_FP16_TO_FP32(half);
        for (int j = 0; j < n; ++j) {
            y[j] = d*level[j];
        }
    }
}

#define KVARN_KV_CODEC(name, book, qk)                                                                            \
void kvarn_quantize_row_##name##_ref(const float * GGML_RESTRICT x, void * GGML_RESTRICT y, int64_t k) {          \
    quantize_row(&book, x, y, k, qk);                                                                             \
}                                                                                                                 \
void kvarn_dequantize_row_##name(const void * GGML_RESTRICT x, float * GGML_RESTRICT y, int64_t k) {              \
    dequantize_row(&book, x, y, k, qk);                                                                           \
}

KVARN_KV_CODEC(tbq4_0,       tbq4,    KVARN_QK)
KVARN_KV_CODEC(tbq4_0_64,    tbq4,    KVARN_QK_64)
KVARN_KV_CODEC(planar3_0,    planar3, KVARN_QK)
KVARN_KV_CODEC(planar3_0_64, planar3, KVARN_QK_64)
KVARN_KV_CODEC(tcq4_0,       tcq4,    KVARN_QK)
KVARN_KV_CODEC(tcq4_0_64,    tcq4,    KVARN_QK_64)
KVARN_KV_CODEC(tcq3_0,       tcq3,    KVARN_QK)
KVARN_KV_CODEC(tcq3_0_64,    tcq3,    KVARN_QK_64)

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
