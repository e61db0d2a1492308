// Flash attention on the CPU that reads each cached row once for all who need it.
//
// Upstream splits the KV rows of a decode step among threads, and tiles a prefill, for f16 and f32 caches only. With any other
// type each query head unpacks or dots the K and V rows of its group again. Here a tile of K and V is unpacked once for all
// query rows of all heads that share it. Taken: every quantised cache, mixed or not. f16 and f32 stay with upstream, to the byte.

#pragma once

#include "ggml.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ggml_compute_params;

// Bytes of work buffer that node wants with n_tasks threads; 0 for a node this file leaves to upstream.
// Called by ggml_graph_plan (ggml-cpu.c), which takes the larger of this and upstream's own need.
size_t kvarn_flash_attn_work_size(const struct ggml_tensor * dst, int n_tasks);

// Called by every thread at the top of ggml_compute_forward_flash_attn_ext_f16 (ops.cpp).
// True: dst is, or once all threads are past the node will be, complete. False: nothing was done, upstream has to do it.
bool kvarn_maybe_flash_attn(const struct ggml_compute_params * params, struct ggml_tensor * dst);

#ifdef __cplusplus
}
#endif
