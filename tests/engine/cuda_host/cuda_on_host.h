#pragma once

// As much of CUDA as the kernels of ggml-cuda/kvarn-*.cuh use, for a plain C++ compiler: a warp is 32 fibers that take turns at each
// shuffle, memory accesses must be aligned as a GPU demands, and single precision can flush subnormal numbers as -use_fast_math does.

#define KVARN_CUDA_ON_HOST
#define FP16_AVAILABLE
#define WARP_SIZE 32

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <type_traits>
#include <vector>

#include <ucontext.h>
#if defined(__SSE__)
#include <immintrin.h>
#endif

#define __host__
#define __device__
#define __global__
#define __forceinline__ inline
#define __align__(n) alignas(n)

#define GGML_COMMON_DECL_CPP
#include "ggml-common.h"
#include "ggml.h"

//
// numbers
//

typedef uint16_t half; // as ggml_half
struct half2  { half  x, y; };
struct float2 { float x, y; };

static inline float    __half2float(half h)           { return ggml_fp16_to_fp32(h); }
static inline half     __float2half_rn(float f)       { return ggml_fp32_to_fp16(f); }
static inline uint16_t __half_as_ushort(half h)       { return h; }
static inline half2    __half2half2(half h)           { return { h, h }; }
static inline half2    make_half2(float x, float y)   { return { __float2half_rn(x), __float2half_rn(y) }; }
static inline half2    operator*(half2 a, half2 b) {
    return make_half2(__half2float(a.x)*__half2float(b.x), __half2float(a.y)*__half2float(b.y)); // exact products, rounded once
}

static inline uint32_t __float_as_uint(float f)    { uint32_t u; memcpy(&u, &f, 4); return u; }
static inline float    __uint_as_float(uint32_t u) { float    f; memcpy(&f, &u, 4); return f; }
static inline int      __float2int_rn(float f)     { return (int) lrintf(f); }

template <typename T> static inline T ggml_cuda_cast(float f);
template <> inline float ggml_cuda_cast<float>(float f) { return f; }
template <> inline half  ggml_cuda_cast<half> (float f) { return __float2half_rn(f); }

static inline uint32_t __byte_perm(uint32_t a, uint32_t b, uint32_t selector) {
    const uint64_t bytes = a | (uint64_t) b << 32;
    uint32_t r = 0;
    for (int i = 0; i < 4; ++i) {
        r |= (uint32_t) ((bytes >> 8*((selector >> 4*i) & 7)) & 0xFF) << 8*i;
    }
    return r;
}

static inline int ggml_cuda_dp4a(int a, int b, int c) {
    for (int i = 0; i < 4; ++i) {
        c += (int8_t) (a >> 8*i) * (int8_t) (b >> 8*i);
    }
    return c;
}

#if defined(__SSE__)
// From now on, or no longer, subnormal inputs and results count as zero.
static inline void flush_subnormals(bool on) {
    _mm_setcsr(on ? _mm_getcsr() | 0x8040 : _mm_getcsr() & ~0x8040);
}

// mul.rn.f32 without .ftz
static __attribute__((noinline)) float kvarn_host_mul(float a, float b) {
    const unsigned state = _mm_getcsr();
    _mm_setcsr(state & ~0x8040u);
    volatile float r = a;
    r = r*b;
    const uint32_t bits = __float_as_uint(r);
    _mm_setcsr(state);
    return __uint_as_float(bits);
}
#else
static inline void  flush_subnormals(bool) {}
static inline float kvarn_host_mul(float a, float b) { return a*b; }
#endif

//
// memory
//

static inline void require_aligned(const void * p, int n) {
    if ((uintptr_t) p % n != 0) {
        printf("misaligned access of %d bytes\n", n);
        abort();
    }
}

template <int nbytes, int alignment = 0>
static inline void ggml_cuda_memcpy_1(void * dst, const void * src) {
    require_aligned(src, alignment ? alignment : nbytes);
    require_aligned(dst, alignment ? alignment : nbytes);
    memcpy(dst, src, nbytes);
}

//
// threads
//

struct dim3 { unsigned x = 1, y = 1, z = 1; };

static dim3 threadIdx, blockIdx, blockDim, gridDim;

static ucontext_t lanes[32], scheduler;
static uint64_t   exchanged[2][32]; // the next shuffle must not overwrite what this one's late lanes have to read
static int        turns[32];
static std::function<void()> kernel;

static inline void next_lane(int lane) {
    swapcontext(&lanes[lane], lane < 31 ? &lanes[lane + 1] : &lanes[0]);
    threadIdx.x = lane;
}

template <typename T>
static inline T __shfl_sync(unsigned, T v, int from, int) {
    static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
    const int lane = threadIdx.x;
    const int turn = turns[lane]++ % 2;
    memcpy(&exchanged[turn][lane], &v, sizeof(T));
    next_lane(lane);
    memcpy(&v, &exchanged[turn][from & 31], sizeof(T));
    return v;
}

template <typename T>
static inline T __shfl_xor_sync(unsigned all, T v, int mask, int width) {
    return __shfl_sync(all, v, (int) threadIdx.x ^ mask, width);
}

static void lane_main(int lane) {
    threadIdx.x = lane;
    kernel();
    if (lane == 31) {
        setcontext(&scheduler);
    }
    setcontext(&lanes[lane + 1]);
}

static inline void run_warp() {
    static std::vector<char> stacks(32*65536);
    for (int lane = 0; lane < 32; ++lane) {
        turns[lane] = 0;
        getcontext(&lanes[lane]);
        lanes[lane].uc_stack.ss_sp   = &stacks[lane*65536];
        lanes[lane].uc_stack.ss_size = 65536;
        lanes[lane].uc_link          = nullptr;
        makecontext(&lanes[lane], (void (*)()) lane_main, 1, lane);
    }
    swapcontext(&scheduler, &lanes[0]);
}

// A launch of kernel<<<grid, dim3(32, n_warps)>>>, warp after warp
static inline void launch(dim3 grid, unsigned n_warps, std::function<void()> f) {
    kernel   = std::move(f);
    gridDim  = grid;
    blockDim = { 32, n_warps, 1 };
    for (blockIdx.z = 0; blockIdx.z < grid.z; ++blockIdx.z) {
        for (blockIdx.y = 0; blockIdx.y < grid.y; ++blockIdx.y) {
            for (blockIdx.x = 0; blockIdx.x < grid.x; ++blockIdx.x) {
                for (threadIdx.y = 0; threadIdx.y < n_warps; ++threadIdx.y) {
                    run_warp();
                }
            }
        }
    }
}
