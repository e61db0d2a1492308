#pragma once

// Kernels between rows of numbers and rows of blocks, for strided tensors of up to four dimensions.
// A warp writes a block, or reads 128 values. Which row is met is the row_t's: the same one, or one that a tensor of indices names.

#include "kvarn-kv-codec.cuh"

#define KVARN_WARPS_PER_BLOCK 8

struct kvarn_shape {
    int64_t ne0, ne1, ne2, ne3; // ne0: values of a row, a multiple of qk
};

// Rows in memory, strides in bytes
struct kvarn_rows {
    char  * data;
    int64_t nb1, nb2, nb3;

    __device__ __forceinline__ char * at(const int64_t i1, const int64_t i2, const int64_t i3) const {
        return data + i1*nb1 + i2*nb2 + i3*nb3;
    }
};

struct kvarn_same_row {
    __device__ __forceinline__ int64_t operator()(const int64_t i1, const int64_t, const int64_t) const {
        return i1;
    }
};

// Index tensors repeat over the outer dimensions; strides in elements
template <typename idx_t>
struct kvarn_row_of_index {
    const idx_t * data;
    int64_t ne1, ne2;
    int64_t s0, s1, s2;

    __device__ __forceinline__ int64_t operator()(const int64_t i1, const int64_t i2, const int64_t i3) const {
        return data[i1*s0 + (i2 % ne1)*s1 + (i3 % ne2)*s2];
    }
};

// dst row row(i1, i2, i3) of (i2, i3) = the quantized f32 row (i1, i2, i3) of src
template <class codec, class row_t>
static __global__ void kvarn_write_rows(const kvarn_shape ne, const kvarn_rows src, const kvarn_rows dst, const row_t row) {
    const uint32_t n_blocks = ne.ne0/codec::qk;
    const uint32_t warp     = blockIdx.x*blockDim.y + threadIdx.y;
    const int64_t  i1       = warp/n_blocks;
    const uint32_t ib       = warp%n_blocks;
    if (i1 >= ne.ne1) {
        return;
    }

    for (int64_t i3 = blockIdx.z; i3 < ne.ne3; i3 += gridDim.z) {
        for (int64_t i2 = blockIdx.y; i2 < ne.ne2; i2 += gridDim.y) {
            const float * x = (const float *) src.at(i1, i2, i3) + (int64_t) ib*codec::qk;
            typename codec::block * y = (typename codec::block *) dst.at(row(i1, i2, i3), i2, i3) + ib;
            codec::quantize(x, *y, threadIdx.x);
        }
    }
}

// y[0 .. 3] = d*levels, exact in float; aligned: y may be written at once
template <typename dst_t>
static __device__ __forceinline__ void kvarn_store_4(dst_t * y, const float d, const int levels, const bool aligned) {
    __align__(16) dst_t v[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        v[j] = ggml_cuda_cast<dst_t>(d*(int8_t) (levels >> 8*j));
    }
    if (aligned) {
        ggml_cuda_memcpy_1<sizeof(v)>(y, v);
        return;
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        y[j] = v[j];
    }
}

// dst row (i1, i2, i3) = the values of src row row(i1, i2, i3) of (i2, i3)
template <class codec, typename dst_t, class row_t>
static __global__ void kvarn_read_rows(const kvarn_shape ne, const kvarn_rows src, const kvarn_rows dst, const row_t row, const bool aligned) {
    const uint32_t n_parts = (ne.ne0 + 127)/128;
    const uint32_t warp    = blockIdx.x*blockDim.y + threadIdx.y;
    const int64_t  i1      = warp/n_parts;
    const int64_t  i0      = 128*(warp%n_parts) + 4*threadIdx.x;
    if (i0 >= ne.ne0 || i1 >= ne.ne1) {
        return;
    }

    for (int64_t i3 = blockIdx.z; i3 < ne.ne3; i3 += gridDim.z) {
        for (int64_t i2 = blockIdx.y; i2 < ne.ne2; i2 += gridDim.y) {
            const typename codec::block & x = ((const typename codec::block *) src.at(row(i1, i2, i3), i2, i3))[i0/codec::qk];
            dst_t * y = (dst_t *) dst.at(i1, i2, i3) + i0;
            kvarn_store_4(y, __half2float(x.d), codec::levels_4(x, i0%codec::qk), aligned);
        }
    }
}
