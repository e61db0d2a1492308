#pragma once

// What the vector kernel of FlashAttention asks of a K and of a V type (fattn-common.cuh), for every codec.
// K: a thread multiplies four levels with four int8 of the query; V: a thread unpacks ne values.

#include "kvarn-kv-codec.cuh"

template <ggml_type type_K, int D, int nthreads>
static __device__ __forceinline__ float kvarn_vec_dot_fattn_vec_KQ(
        const char * __restrict__ K_c, const void * __restrict__ Q_v, const int * __restrict__ Q_q8, const void * __restrict__ Q_ds_v) {
    typedef kvarn_codec<type_K> codec;
    const typename codec::block * K = (const typename codec::block *) K_c;
    const float2 * Q_ds = (const float2 *) Q_ds_v;
    GGML_UNUSED(Q_v);

    float sum = 0.0f;

#pragma unroll
    for (int k_KQ_0 = 0; k_KQ_0 < int(D/sizeof(int)); k_KQ_0 += nthreads) {
        const int k_KQ = k_KQ_0 + (nthreads == WARP_SIZE ? threadIdx.x : threadIdx.x % nthreads);

        const typename codec::block & x = K[k_KQ/(codec::qk/4)];
        const int v    = codec::levels_4(x, 4*(k_KQ % (codec::qk/4)));
        const int sumi = ggml_cuda_dp4a(v, Q_q8[k_KQ_0/nthreads], 0);

        sum += __half2float(x.d) * (sumi*Q_ds[k_KQ_0/nthreads].x);
    }

    return sum;
}

template <ggml_type type_V, typename T, int ne>
static __device__ __forceinline__ void kvarn_dequantize_V(const void * __restrict__ vx, void * __restrict__ dst, const int64_t i0) {
    typedef kvarn_codec<type_V> codec;
    static_assert(ne == 4, "bad ne");

    const typename codec::block & x = ((const typename codec::block *) vx)[i0/codec::qk];
    const int levels = codec::levels_4(x, i0 % codec::qk);

#ifdef FP16_AVAILABLE
    if constexpr (std::is_same_v<T, half>) {
        const half2 d = __half2half2(x.d);

#pragma unroll
        for (int l = 0; l < ne; l += 2) {
            ((half2 *) dst)[l/2] = d * make_half2((int8_t) (levels >> 8*l), (int8_t) (levels >> 8*(l + 1)));
        }
    } else
#endif // FP16_AVAILABLE
    if constexpr (std::is_same_v<T, float>) {
        const float d = __half2float(x.d);

#pragma unroll
        for (int l = 0; l < ne; ++l) {
            ((float *) dst)[l] = d * (int8_t) (levels >> 8*l);
        }
    } else {
        static_assert(std::is_same_v<T, void>, "bad type");
    }
}
