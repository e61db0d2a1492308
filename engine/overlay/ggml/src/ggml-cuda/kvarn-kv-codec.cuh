#pragma once

// The cache types of kvarn-kv-types.h in device code. Rows, conversion and attention know a type only as a codec:
//
//   typedef ... block;                                                  first member: ggml_half d
//   static constexpr int qk;                                            values of a block
//   static int  levels_4(const block & x, int i);                       levels of values i .. i+3 (i % 4 == 0), an int8 in each byte
//   static void quantize(const float * x, block & y, int lane);         called by all 32 lanes of a warp; x has qk values
//
// A value is d*level. A new type is one more codec and one line in KVARN_CUDA_CODECS.
// Types may share a block, as tbq4_0 and tcq4_0 do: everything is chosen by type.

#include "kvarn-kv-encode-trellis.cuh"

// Table entries at the four indices that the bytes of index hold, an int8 in each byte.
// __byte_perm selects by 3 bits out of 8 bytes; 16 levels take two selections and a third between their results.
template <class book>
static __device__ __forceinline__ int kvarn_look_up_4(const uint32_t index) {
    const uint32_t pairs   = index | index >> 4;             // bytes 0 and 2 hold two indices each
    const uint32_t nibbles = __byte_perm(pairs, 0, 0x4420);

    constexpr uint32_t t0 = kvarn_table_word<book>(0);
    constexpr uint32_t t1 = kvarn_table_word<book>(1);
    if constexpr (book::n_levels == 8) {
        return __byte_perm(t0, t1, nibbles);
    } else {
        constexpr uint32_t t2 = kvarn_table_word<book>(2);
        constexpr uint32_t t3 = kvarn_table_word<book>(3);
        const uint32_t low  = __byte_perm(t0, t1, nibbles & 0x7777);
        const uint32_t high = __byte_perm(t2, t3, nibbles & 0x7777);
        return __byte_perm(low, high, 0x3210 | (nibbles & 0x8888) >> 1);
    }
}

template <typename block_t, int qk_>
struct kvarn_codec_tbq4 {
    typedef block_t block;
    static constexpr int qk = qk_;

    static __device__ __forceinline__ int levels_4(const block & x, const int i) {
        uint32_t q;
        ggml_cuda_memcpy_1<sizeof(q), 2>(&q, x.qs + 16*(i/32) + i%16);
        return kvarn_look_up_4<kvarn_book_tbq4>((q >> 4*((i/16) % 2)) & 0x0F0F0F0F);
    }

    static __device__ __forceinline__ void quantize(const float * x, block & y, const int lane) {
        uint32_t index[qk/32];
        const ggml_half d = kvarn_encode<kvarn_book_tbq4, qk>(x, lane, index);
        kvarn_store_nibbles<qk>(index, lane, y.qs);
        if (lane == 0) {
            y.d = d;
        }
    }
};

template <typename block_t, int qk_>
struct kvarn_codec_planar3 {
    typedef block_t block;
    static constexpr int qk = qk_;

    static __device__ __forceinline__ int levels_4(const block & x, const int i) {
        uint32_t low;
        ggml_cuda_memcpy_1<sizeof(low), 2>(&low, x.qs + 8*(i/32) + i%8);
        low = (low >> 2*((i/8) % 4)) & 0x03030303;
        return kvarn_look_up_4<kvarn_book_planar3>(low | kvarn_bit_to_byte(x.qh[i/8] >> (i%8)) << 2);
    }

    static __device__ __forceinline__ void quantize(const float * x, block & y, const int lane) {
        uint32_t index[qk/32];
        const ggml_half d = kvarn_encode<kvarn_book_planar3, qk>(x, lane, index);
        kvarn_store_planes<qk>(index, lane, y.qs, y.qh);
        if (lane == 0) {
            y.d = d;
        }
    }
};

// Levels of four symbols of a trellis code. Bytes of index: rank + n_ranks*w; of e: 0 or 1.
// The half of the table with e = 1 is the other one in reverse with the other sign. No level is 0, so no byte carries.
template <class book>
static __device__ __forceinline__ int kvarn_look_up_trellis_4(const uint32_t index, const uint32_t e) {
    return (kvarn_look_up_4<book>(index ^ e*(book::n_ranks - 1)) ^ e*0xFF) + e;
}

template <typename block_t, int qk_>
struct kvarn_codec_tcq4 {
    typedef block_t block;
    static constexpr int qk = qk_;

    static __device__ __forceinline__ int levels_4(const block & x, const int i) {
        const uint8_t * ring = x.qs + 16*(i/32);
        uint32_t q;
        uint16_t before; // the two bytes before q, around the ring
        ggml_cuda_memcpy_1<sizeof(q), 2>(&q, ring + i%16);
        ggml_cuda_memcpy_1<sizeof(before)>(&before, ring + (i + 14)%16);
        const int      shift = 4*((i/16) % 2);
        const uint32_t c     = q >> shift;
        const uint32_t c1    = __byte_perm(before, q, 0x6541) >> shift;
        const uint32_t c2    = __byte_perm(before, q, 0x5410) >> shift;
        return kvarn_look_up_trellis_4<kvarn_book_tcq4>((c & 0x0F0F0F0F) ^ (c2 & 0x08080808), (c1 >> 3) & 0x01010101);
    }

    static __device__ __forceinline__ void quantize(const float * x, block & y, const int lane) {
        uint32_t ranks, trellis;
        const ggml_half d = kvarn_encode_trellis<kvarn_book_tcq4, qk>(x, lane, ranks, trellis);
        kvarn_store_trellis_nibbles<qk>(ranks, trellis, lane, y.qs);
        if (lane == 0) {
            y.d = d;
        }
    }
};

template <typename block_t, int qk_>
struct kvarn_codec_tcq3 {
    typedef block_t block;
    static constexpr int qk = qk_;

    static __device__ __forceinline__ int levels_4(const block & x, const int i) {
        uint32_t rank, plane;
        ggml_cuda_memcpy_1<sizeof(rank), 2>(&rank, x.qs + 8*(i/32) + i%8);
        ggml_cuda_memcpy_1<sizeof(plane), 2>(&plane, x.qh + 4*(i/32));
        rank = (rank >> 2*((i/8) % 4)) & 0x03030303;
        const int      turn = (i + 30)%32;                             // i % 4 == 0, so it is not 0
        const uint32_t u2   = plane >> turn | plane << (32 - turn);    // bit j: u2 of value i + j
        return kvarn_look_up_trellis_4<kvarn_book_tcq3>(rank | kvarn_bit_to_byte(u2 >> 2 ^ u2) << 2, kvarn_bit_to_byte(u2 >> 1));
    }

    static __device__ __forceinline__ void quantize(const float * x, block & y, const int lane) {
        uint32_t ranks, trellis;
        const ggml_half d = kvarn_encode_trellis<kvarn_book_tcq3, qk>(x, lane, ranks, trellis);
        kvarn_store_trellis_planes<qk>(ranks, trellis, lane, y.qs, y.qh);
        if (lane == 0) {
            y.d = d;
        }
    }
};

#define KVARN_CUDA_CODECS(X)                                                                       \
    X(GGML_TYPE_KVARN_TBQ4_0,       kvarn_codec_tbq4,    block_kvarn_tbq4_0,       KVARN_QK)       \
    X(GGML_TYPE_KVARN_TBQ4_0_64,    kvarn_codec_tbq4,    block_kvarn_tbq4_0_64,    KVARN_QK_64)    \
    X(GGML_TYPE_KVARN_PLANAR3_0,    kvarn_codec_planar3, block_kvarn_planar3_0,    KVARN_QK)       \
    X(GGML_TYPE_KVARN_PLANAR3_0_64, kvarn_codec_planar3, block_kvarn_planar3_0_64, KVARN_QK_64)    \
    X(GGML_TYPE_KVARN_TCQ4_0,       kvarn_codec_tcq4,    block_kvarn_tcq4_0,       KVARN_QK)       \
    X(GGML_TYPE_KVARN_TCQ4_0_64,    kvarn_codec_tcq4,    block_kvarn_tcq4_0_64,    KVARN_QK_64)    \
    X(GGML_TYPE_KVARN_TCQ3_0,       kvarn_codec_tcq3,    block_kvarn_tcq3_0,       KVARN_QK)       \
    X(GGML_TYPE_KVARN_TCQ3_0_64,    kvarn_codec_tcq3,    block_kvarn_tcq3_0_64,    KVARN_QK_64)

template <ggml_type type> struct kvarn_codec;

#define KVARN_CUDA_CODEC(type, codec_t, block_t, qk) \
template <> struct kvarn_codec<type> : codec_t<block_t, qk> {};
KVARN_CUDA_CODECS(KVARN_CUDA_CODEC)
#undef KVARN_CUDA_CODEC

static constexpr __host__ __device__ bool kvarn_has_codec(const ggml_type type) {
    switch (type) {
#define KVARN_CUDA_CASE(type, codec_t, block_t, qk) case type:
        KVARN_CUDA_CODECS(KVARN_CUDA_CASE)
#undef KVARN_CUDA_CASE
            return true;
        default:
            return false;
    }
}
