#include "kvarn-kv-ops.cuh"
#include "kvarn-kv-rows.cuh"
#include "fattn.cuh"

#include <algorithm>

// f(codec) for the codec of a type; false when it has none
template <typename F>
static bool with_codec(const ggml_type type, const F & f) {
    switch (type) {
#define KVARN_CUDA_CASE(type, codec_t, block_t, qk) \
        case type:                                  \
            f(kvarn_codec<type>());                 \
            return true;
        KVARN_CUDA_CODECS(KVARN_CUDA_CASE)
#undef KVARN_CUDA_CASE
        default:
            return false;
    }
}

//
// launches
//

static dim3 grid_of(const kvarn_shape & ne, const int64_t values_per_warp) {
    const int64_t n_warps = ne.ne1*((ne.ne0 + values_per_warp - 1)/values_per_warp);
    GGML_ASSERT(n_warps < INT_MAX);
    const int64_t limit = 65535; // of y and z; the kernels loop
    return dim3((n_warps + KVARN_WARPS_PER_BLOCK - 1)/KVARN_WARPS_PER_BLOCK, std::min(ne.ne2, limit), std::min(ne.ne3, limit));
}

static bool is_empty(const kvarn_shape & ne) {
    return ne.ne0 == 0 || ne.ne1 == 0 || ne.ne2 == 0 || ne.ne3 == 0;
}

template <class codec, class row_t>
static void write_rows(const kvarn_shape & ne, const kvarn_rows & src, const kvarn_rows & dst, const row_t & row, cudaStream_t stream) {
    GGML_ASSERT(ne.ne0 % codec::qk == 0);
    if (!is_empty(ne)) {
        kvarn_write_rows<codec><<<grid_of(ne, codec::qk), dim3(32, KVARN_WARPS_PER_BLOCK), 0, stream>>>(ne, src, dst, row);
    }
}

template <class codec, typename dst_t, class row_t>
static void read_rows(const kvarn_shape & ne, const kvarn_rows & src, const kvarn_rows & dst, const row_t & row, cudaStream_t stream) {
    GGML_ASSERT(ne.ne0 % codec::qk == 0);
    const int64_t  align   = 4*sizeof(dst_t);
    const bool     aligned = (uintptr_t) dst.data % align == 0 && dst.nb1 % align == 0 && dst.nb2 % align == 0 && dst.nb3 % align == 0;
    if (!is_empty(ne)) {
        kvarn_read_rows<codec, dst_t><<<grid_of(ne, 128), dim3(32, KVARN_WARPS_PER_BLOCK), 0, stream>>>(ne, src, dst, row, aligned);
    }
}

//
// ops
//

static kvarn_shape shape_of(const ggml_tensor * t) {
    return { t->ne[0], t->ne[1], t->ne[2], t->ne[3] };
}

static kvarn_rows rows_of(const ggml_tensor * t) {
    return { (char *) t->data, (int64_t) t->nb[1], (int64_t) t->nb[2], (int64_t) t->nb[3] };
}

template <typename idx_t>
static kvarn_row_of_index<idx_t> row_of(const ggml_tensor * idx) {
    const int64_t size = sizeof(idx_t);
    return { (const idx_t *) idx->data, idx->ne[1], idx->ne[2], (int64_t) idx->nb[0]/size, (int64_t) idx->nb[1]/size, (int64_t) idx->nb[2]/size };
}

bool kvarn_cuda_set_rows(ggml_backend_cuda_context & ctx, ggml_tensor * dst) {
    const ggml_tensor * src = dst->src[0];
    const ggml_tensor * idx = dst->src[1];
    return with_codec(dst->type, [&](auto codec) {
        typedef decltype(codec) codec_t;
        if (idx->type == GGML_TYPE_I64) {
            write_rows<codec_t>(shape_of(src), rows_of(src), rows_of(dst), row_of<int64_t>(idx), ctx.stream());
        } else {
            write_rows<codec_t>(shape_of(src), rows_of(src), rows_of(dst), row_of<int32_t>(idx), ctx.stream());
        }
    });
}

bool kvarn_cuda_get_rows(ggml_backend_cuda_context & ctx, ggml_tensor * dst) {
    const ggml_tensor * src = dst->src[0];
    return with_codec(src->type, [&](auto codec) {
        typedef decltype(codec) codec_t;
        if (dst->type == GGML_TYPE_F16) {
            read_rows<codec_t, half >(shape_of(dst), rows_of(src), rows_of(dst), row_of<int32_t>(dst->src[1]), ctx.stream());
        } else {
            read_rows<codec_t, float>(shape_of(dst), rows_of(src), rows_of(dst), row_of<int32_t>(dst->src[1]), ctx.stream());
        }
    });
}

bool kvarn_cuda_cpy(ggml_backend_cuda_context & ctx, const ggml_tensor * src, ggml_tensor * dst) {
    if (src->type == GGML_TYPE_F32) {
        return with_codec(dst->type, [&](auto codec) {
            write_rows<decltype(codec)>(shape_of(src), rows_of(src), rows_of(dst), kvarn_same_row(), ctx.stream());
        });
    }
    if (dst->type == GGML_TYPE_F32) {
        return with_codec(src->type, [&](auto codec) {
            read_rows<decltype(codec), float>(shape_of(src), rows_of(src), rows_of(dst), kvarn_same_row(), ctx.stream());
        });
    }
    return false;
}

//
// conversion of whole tensors
//

template <class codec, typename T>
static void convert_nc(const void * x, T * y, int64_t ne00, int64_t ne01, int64_t ne02, int64_t ne03,
        int64_t s01, int64_t s02, int64_t s03, cudaStream_t stream) { // strides in blocks
    const int64_t size = sizeof(typename codec::block);
    const int64_t nb1  = ne00*sizeof(T);
    const kvarn_rows src = { (char *) x, s01*size, s02*size, s03*size };
    const kvarn_rows dst = { (char *) y, nb1, ne01*nb1, ne02*ne01*nb1 };
    read_rows<codec, T>({ ne00, ne01, ne02, ne03 }, src, dst, kvarn_same_row(), stream);
}

template <class codec, typename T>
static void convert(const void * x, T * y, int64_t k, cudaStream_t stream) {
    const int64_t ne0 = k % 128 == 0 ? 128 : codec::qk; // all lanes of a warp are busy with 128 values
    const int64_t n   = k/ne0;
    const int64_t s   = ne0/codec::qk;
    convert_nc<codec, T>(x, y, ne0, n, 1, 1, s, n*s, n*s, stream);
}

template <typename T>
to_t_cuda_t<T> kvarn_get_to_cuda(const ggml_type type) {
    to_t_cuda_t<T> result = nullptr;
    with_codec(type, [&](auto codec) { result = convert<decltype(codec), T>; });
    return result;
}

template <typename T>
to_t_nc_cuda_t<T> kvarn_get_to_nc_cuda(const ggml_type type) {
    to_t_nc_cuda_t<T> result = nullptr;
    with_codec(type, [&](auto codec) { result = convert_nc<decltype(codec), T>; });
    return result;
}

template to_t_cuda_t<float> kvarn_get_to_cuda<float>(ggml_type type);
template to_t_cuda_t<half>  kvarn_get_to_cuda<half> (ggml_type type);
template to_t_nc_cuda_t<float> kvarn_get_to_nc_cuda<float>(ggml_type type);
template to_t_nc_cuda_t<half>  kvarn_get_to_nc_cuda<half> (ggml_type type);

//
// what is supported
//

bool kvarn_cuda_is_ours(const ggml_tensor * op) {
    for (const ggml_tensor * src : op->src) {
        if (src && kvarn_has_codec(src->type)) {
            return true;
        }
    }
    return kvarn_has_codec(op->type);
}

static bool has_dense_rows(const ggml_tensor * t) {
    return t->nb[0] == ggml_type_size(t->type);
}

static bool can_copy(const ggml_tensor * src, const ggml_tensor * dst) {
    if (src->type == dst->type) {
        return ggml_is_contiguous(src) && ggml_is_contiguous(dst);
    }
    const bool to_or_from_f32 = src->type == GGML_TYPE_F32 || dst->type == GGML_TYPE_F32;
    return to_or_from_f32 && ggml_are_same_shape(src, dst) && has_dense_rows(src) && has_dense_rows(dst);
}

bool kvarn_cuda_supports_op(const int device, const ggml_tensor * op) {
    switch (op->op) {
        case GGML_OP_NONE:
        case GGML_OP_RESHAPE:
        case GGML_OP_VIEW:
        case GGML_OP_PERMUTE:
        case GGML_OP_TRANSPOSE:
            return true;
        case GGML_OP_SET_ROWS:
            return kvarn_has_codec(op->type) && op->src[0]->type == GGML_TYPE_F32 && has_dense_rows(op->src[0]) && has_dense_rows(op) &&
                (op->src[1]->type == GGML_TYPE_I64 || op->src[1]->type == GGML_TYPE_I32);
        case GGML_OP_GET_ROWS:
            return (op->type == GGML_TYPE_F32 || op->type == GGML_TYPE_F16) && op->src[1]->type == GGML_TYPE_I32 &&
                has_dense_rows(op->src[0]) && has_dense_rows(op);
        case GGML_OP_CPY:
            return can_copy(op->src[0], op->src[1]);
        case GGML_OP_DUP:
        case GGML_OP_CONT:
            return can_copy(op->src[0], op);
        case GGML_OP_FLASH_ATTN_EXT:
            return ggml_cuda_flash_attn_ext_supported(device, op);
        default:
            return false;
    }
}
