// aarch64; see kvarn-kv-groups.h.

#pragma once

typedef int8x16x2_t levels_t; // values 0..15 and 16..31 of a group
typedef float32x4_t sums_t;

#define SUMS_ZERO               vdupq_n_f32(0.0f)
#define SUMS_ADD(a, b)          vaddq_f32(a, b)
#define SUMS_SCALE_ADD(a, b, d) vaddq_f32(a, vmulq_n_f32(b, d))

// one byte each: value where a bit is set, else 0
static inline uint8x16_t spread(uint32_t bits16, uint8_t value) {
    static const uint8_t bits[8] = { 1, 2, 4, 8, 16, 32, 64, 128 };
    const uint8x16_t bit   = vcombine_u8(vld1_u8(bits), vld1_u8(bits));
    const uint8x16_t bytes = vcombine_u8(vdup_n_u8((uint8_t) bits16), vdup_n_u8((uint8_t) (bits16 >> 8)));
    return vandq_u8(vtstq_u8(bytes, bit), vdupq_n_u8(value));
}

// one byte each: the two low bits of 32 symbols
static inline uint8x16x2_t pairs(const uint8_t * qs) {
    const uint8x8_t  b    = vld1_u8(qs);
    const uint8x16_t mask = vdupq_n_u8(3);
    uint8x16x2_t r;
    r.val[0] = vandq_u8(vcombine_u8(b,               vshr_n_u8(b, 2)), mask);
    r.val[1] = vandq_u8(vcombine_u8(vshr_n_u8(b, 4), vshr_n_u8(b, 6)), mask);
    return r;
}

static inline levels_t tbq4_group(const uint8_t * qs) {
    const int8x16_t  table = vld1q_s8(tbq4_levels);
    const uint8x16_t bytes = vld1q_u8(qs);
    levels_t r;
    r.val[0] = vqtbl1q_s8(table, vandq_u8(bytes, vdupq_n_u8(15)));
    r.val[1] = vqtbl1q_s8(table, vshrq_n_u8(bytes, 4));
    return r;
}

static inline levels_t planar3_group(const uint8_t * qs, const uint8_t * qh) {
    const int8x16_t    table = vld1q_s8(planar3_levels);
    const uint8x16x2_t low   = pairs(qs);
    const uint32_t     high  = bits_at(qh);
    levels_t r;
    for (int i = 0; i < 2; ++i) {
        r.val[i] = vqtbl1q_s8(table, vorrq_u8(low.val[i], spread(high >> 16*i, 4)));
    }
    return r;
}

// The bytes of a group are two rings, one in the low nibbles and one in the high ones: the symbols before are the bytes before.
static inline levels_t tcq4_group(const uint8_t * qs) {
    const int8x16x2_t table = { { vld1q_s8(tcq4_levels), vld1q_s8(tcq4_levels + 16) } };
    const uint8x16_t  c  = vld1q_u8(qs);
    const uint8x16_t  c1 = vextq_u8(c, c, 15);
    const uint8x16_t  c2 = vextq_u8(c, c, 14);
    const uint8x16_t  index = veorq_u8(c, vandq_u8(c2, vdupq_n_u8(0x88)));
    const uint8x16_t  low   = vorrq_u8(vandq_u8(index, vdupq_n_u8(15)), vshlq_n_u8(vandq_u8(c1, vdupq_n_u8(8)), 1));
    const uint8x16_t  high  = vorrq_u8(vshrq_n_u8(index, 4), vshlq_n_u8(vshrq_n_u8(c1, 7), 4));
    levels_t r;
    r.val[0] = vqtbl2q_s8(table, low);
    r.val[1] = vqtbl2q_s8(table, high);
    return r;
}

static inline levels_t tcq3_group(const uint8_t * qs, const uint8_t * qh) {
    const int8x16_t    table = vld1q_s8(tcq3_levels);
    const uint8x16x2_t low   = pairs(qs);
    const uint32_t     u     = bits_at(qh);
    const uint32_t     w     = u ^ rotated(u, 2);
    const uint32_t     e     = rotated(u, 1);
    levels_t r;
    for (int i = 0; i < 2; ++i) {
        r.val[i] = vqtbl1q_s8(table, vorrq_u8(low.val[i], vorrq_u8(spread(w >> 16*i, 4), spread(e >> 16*i, 8))));
    }
    return r;
}

static inline sums_t dot_group(levels_t x, const block_q8_0 * y) {
    int32x4_t sum = ggml_vdotq_s32(vdupq_n_s32(0), x.val[0], vld1q_s8(y->qs));
    sum = ggml_vdotq_s32(sum, x.val[1], vld1q_s8(y->qs + 16));
    return vmulq_n_f32(vcvtq_f32_s32(sum), GGML_CPU_FP16_TO_FP32(y->d));
}

static inline float sum_of(sums_t v) {
    return vaddvq_f32(v);
}

static inline void store_scaled(float * y, levels_t x, float d) {
    for (int i = 0; i < 4; ++i) {
        const int16x8_t eight = vmovl_s8(i % 2 ? vget_high_s8(x.val[i/2]) : vget_low_s8(x.val[i/2]));
        vst1q_f32(y + 8*i,     vmulq_n_f32(vcvtq_f32_s32(vmovl_s16(vget_low_s16 (eight))), d));
        vst1q_f32(y + 8*i + 4, vmulq_n_f32(vcvtq_f32_s32(vmovl_s16(vget_high_s16(eight))), d));
    }
}
