#pragma once

// A warp writes a block of a scalar codebook: lane l owns the values l, l + 32, .. and every step of kvarn-kv-types.h is kept, so
// the bytes are the CPU's (kvarn-kv-encode-trellis.cuh: those of a trellis code). What -use_fast_math would change (subnormal
// floats are flushed to zero) is done on bits instead; square root and division are in double, which it leaves alone.

#ifndef KVARN_CUDA_ON_HOST
#include "common.cuh"
#endif
#include "../kvarn-kv-types.h"

#include <cfloat>

struct kvarn_book_tbq4 {
    static constexpr int   n_levels  = 16;
    static constexpr float per_sigma = KVARN_TBQ4_PER_SIGMA;
    static constexpr float d_max     = KVARN_TBQ4_D_MAX;
    static constexpr __host__ __device__ int level(const int i) {
        constexpr int levels[] = KVARN_TBQ4_LEVELS;
        return levels[i];
    }
    static constexpr __host__ __device__ float threshold(const int i) {
        constexpr float thresholds[] = KVARN_TBQ4_THRESHOLDS;
        return thresholds[i];
    }
};

struct kvarn_book_planar3 {
    static constexpr int   n_levels  = 8;
    static constexpr float per_sigma = KVARN_PLANAR3_PER_SIGMA;
    static constexpr float d_max     = KVARN_PLANAR3_D_MAX;
    static constexpr __host__ __device__ int level(const int i) {
        constexpr int levels[] = KVARN_PLANAR3_LEVELS;
        return levels[i];
    }
    static constexpr __host__ __device__ float threshold(const int i) {
        constexpr float thresholds[] = KVARN_PLANAR3_THRESHOLDS;
        return thresholds[i];
    }
};

// levels 4*i .. 4*i+3 as bytes
template <class book>
static constexpr __host__ __device__ uint32_t kvarn_table_word(const int i) {
    uint32_t word = 0;
    for (int j = 0; j < 4; ++j) {
        word |= ((uint32_t) book::level(4*i + j) & 0xFF) << 8*j;
    }
    return word;
}

template <typename T>
static __device__ __forceinline__ T kvarn_shfl_xor(const T v, const int mask) {
    return __shfl_xor_sync(0xFFFFFFFF, v, mask, 32);
}

template <typename T>
static __device__ __forceinline__ T kvarn_shfl(const T v, const int lane) {
    return __shfl_sync(0xFFFFFFFF, v, lane, 32);
}

// bits 0..3, one to a byte
static __device__ __forceinline__ uint32_t kvarn_bit_to_byte(const uint32_t bits) {
    return ((bits & 0x0F)*0x00204081) & 0x01010101;
}

// NaN is 0, everything else is clamped
static __device__ __forceinline__ float kvarn_clean(const float x) {
    constexpr uint32_t bits_of_max = 0x477FE000;
    static_assert(KVARN_X_MAX == 65504.0f, "bits_of_max is another number");
    const uint32_t bits      = __float_as_uint(x);
    const uint32_t magnitude = bits & 0x7FFFFFFF;
    const uint32_t clamped   = magnitude < bits_of_max ? magnitude : bits_of_max;
    return magnitude > 0x7F800000 ? 0.0f : __uint_as_float((bits & 0x80000000) | clamped);
}

// a*b, subnormal numbers included
static __device__ __forceinline__ float kvarn_mul(const float a, const float b) {
#ifdef __CUDA_ARCH__
    float r;
    asm("mul.rn.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
#elif defined(KVARN_CUDA_ON_HOST)
    return kvarn_host_mul(a, b);
#else
    return a*b;
#endif // __CUDA_ARCH__
}

// Index of the level nearest to v; adds the level's square to level_energy.
template <class book>
static __device__ __forceinline__ uint32_t kvarn_nearest(const float v, int & level_energy) {
    constexpr int half = book::n_levels/2;
    uint32_t index = half;
    int      level = book::level(half);
#pragma unroll
    for (int i = 0; i < half - 1; ++i) {
        if (fabsf(v) > book::threshold(i)) {
            index = half + i + 1;
            level = book::level(half + i + 1);
        }
    }
    level_energy += level*level;
    const bool negative = __float_as_uint(v) > 0x80000000; // -0 is not
    return negative ? book::n_levels - 1 - index : index;
}

// v[g] becomes value 32*g + lane, cleaned. Returns the norm of all.
template <int qk>
static __device__ __forceinline__ double kvarn_norm(const float * __restrict__ x, const int lane, float * v) {
    double energy = 0.0;
#pragma unroll
    for (int g = 0; g < qk/32; ++g) {
        v[g] = kvarn_clean(x[32*g + lane]);
        energy += (double) v[g]*v[g];
    }
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
        energy += kvarn_shfl_xor(energy, step);
    }
    return sqrt(energy);
}

// The scale that keeps the norm; level_energy is the lane's share of the sum of squared levels.
template <class book>
static __device__ __forceinline__ ggml_half kvarn_scale(const double norm, int level_energy) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
        level_energy += kvarn_shfl_xor(level_energy, step);
    }
    const float d = (float) (norm/sqrt((double) level_energy));
    return __float2half_rn(d < book::d_max ? d : book::d_max);
}

// index[g] becomes the index of value 32*g + lane. Returns d; for a block of zeros that and all indices are 0.
template <class book, int qk>
static __device__ __forceinline__ ggml_half kvarn_encode(const float * __restrict__ x, const int lane, uint32_t * index) {
    float v[qk/32];
    const double norm  = kvarn_norm<qk>(x, lane, v);
    const float  scale = (float) (book::per_sigma*sqrt((double) qk)/norm);
    int level_energy = 0;
#pragma unroll
    for (int g = 0; g < qk/32; ++g) {
        index[g] = kvarn_nearest<book>(kvarn_mul(v[g], scale), level_energy);
    }

    const ggml_half d_half = kvarn_scale<book>(norm, level_energy);
    if (__half_as_ushort(d_half) == 0) {
#pragma unroll
        for (int g = 0; g < qk/32; ++g) {
            index[g] = 0;
        }
    }
    return d_half;
}

// Both collect the bytes of all groups in one word of each lane, a byte for each group of 32 values.

template <int qk>
static __device__ __forceinline__ void kvarn_store_nibbles(const uint32_t * index, const int lane, uint8_t * qs) {
    uint32_t word = 0;
#pragma unroll
    for (int g = 0; g < qk/32; ++g) {
        word |= index[g] << (8*g + 4*(lane/16));
    }
    word |= kvarn_shfl_xor(word, 16);
#pragma unroll
    for (int g0 = 0; g0 < qk/32; g0 += 2) { // each half of the warp stores every other group
        const int g = g0 + lane/16;
        qs[16*g + lane%16] = word >> 8*g;
    }
}

template <int qk>
static __device__ __forceinline__ void kvarn_store_planes(const uint32_t * index, const int lane, uint8_t * qs, uint8_t * qh) {
    uint32_t low  = 0;
    uint32_t high = 0;
#pragma unroll
    for (int g = 0; g < qk/32; ++g) {
        low  |= (index[g] & 3)  << (8*g + 2*(lane/8));
        high |= (index[g] >> 2) << (8*g + lane%8);
    }
    low  |= kvarn_shfl_xor(low,  8);
    low  |= kvarn_shfl_xor(low,  16);
    high |= kvarn_shfl_xor(high, 1);
    high |= kvarn_shfl_xor(high, 2);
    high |= kvarn_shfl_xor(high, 4);

    if (lane < qk/4) {
        qs[lane] = low >> 8*(lane/8);
    }
    const int g = lane%8;
    if (g < qk/32) {
        qh[4*g + lane/8] = high >> 8*g;
    }
}
