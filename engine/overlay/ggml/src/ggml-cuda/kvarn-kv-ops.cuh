#pragma once

// The ops on CUDA that read or write a cache type of ours. Each returns false, having done nothing, for tensors of other types.

#include "convert.cuh"

// Is a source or the result of this op of one of our types?
bool kvarn_cuda_is_ours(const ggml_tensor * op);

// For such an op: true exactly when a kernel here, or the attention kernels, compute it.
bool kvarn_cuda_supports_op(int device, const ggml_tensor * op);

bool kvarn_cuda_set_rows(ggml_backend_cuda_context & ctx, ggml_tensor * dst);
bool kvarn_cuda_get_rows(ggml_backend_cuda_context & ctx, ggml_tensor * dst);
bool kvarn_cuda_cpy     (ggml_backend_cuda_context & ctx, const ggml_tensor * src, ggml_tensor * dst); // to or from f32

// As ggml_get_to_*_cuda(), for T = float and half; null for other types.
template <typename T> to_t_cuda_t<T>    kvarn_get_to_cuda   (ggml_type type);
template <typename T> to_t_nc_cuda_t<T> kvarn_get_to_nc_cuda(ggml_type type);
