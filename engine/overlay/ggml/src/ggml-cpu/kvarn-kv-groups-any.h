// Plain C; see kvarn-kv-groups.h.

#pragma once

typedef struct { int8_t v[32]; } levels_t;
typedef float sums_t;

#define SUMS_ZERO               0.0f
#define SUMS_ADD(a, b)          ((a) + (b))
#define SUMS_SCALE_ADD(a, b, d) ((a) + (b)*(d))

static inline int nibble(const uint8_t * qs, int j) {
    return (qs[j%16] >> 4*(j/16)) & 15;
}

static inline int pair(const uint8_t * qs, int j) {
    return (qs[j%8] >> 2*(j/8)) & 3;
}

static inline levels_t tbq4_group(const uint8_t * qs) {
    levels_t r;
    for (int j = 0; j < 32; ++j) {
        r.v[j] = tbq4_levels[nibble(qs, j)];
    }
    return r;
}

static inline levels_t planar3_group(const uint8_t * qs, const uint8_t * qh) {
    const uint32_t high = bits_at(qh);
    levels_t r;
    for (int j = 0; j < 32; ++j) {
        r.v[j] = planar3_levels[pair(qs, j) | ((high >> j) & 1) << 2];
    }
    return r;
}

static inline levels_t tcq4_group(const uint8_t * qs) {
    levels_t r;
    for (int j = 0; j < 32; ++j) {
        const int ring = j & 16;
        const int c1   = nibble(qs, ring | ((j + 15) & 15));
        const int c2   = nibble(qs, ring | ((j + 14) & 15));
        r.v[j] = tcq4_levels[(nibble(qs, j) ^ (c2 & 8)) | (c1 & 8) << 1];
    }
    return r;
}

static inline levels_t tcq3_group(const uint8_t * qs, const uint8_t * qh) {
    const uint32_t u = bits_at(qh);
    const uint32_t w = u ^ rotated(u, 2);
    const uint32_t e = rotated(u, 1);
    levels_t r;
    for (int j = 0; j < 32; ++j) {
        r.v[j] = tcq3_levels[pair(qs, j) | ((w >> j) & 1) << 2 | ((e >> j) & 1) << 3];
    }
    return r;
}

static inline sums_t dot_group(levels_t x, const block_q8_0 * y) {
    int sum = 0;
    for (int j = 0; j < 32; ++j) {
        sum += x.v[j]*y->qs[j];
    }
    return sum*GGML_CPU_FP16_TO_FP32(y->d);
}

static inline float sum_of(sums_t v) {
    return v;
}

static inline void store_scaled(float * y, levels_t x, float d) {
    for (int j = 0; j < 32; ++j) {
        y[j] = d*x.v[j];
    }
}
