// Writing rows of a trellis type on the CPU with all threads. Upstream gives this node to one thread, because a write is cheap;
// a trellis is searched, six times as dear as a scalar code, and while one thread searches the others wait.

#pragma once

#include "ggml.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ggml_compute_params;

// Threads for that GGML_OP_SET_ROWS node: all of them for a trellis type written from f32, else 1 as upstream has it.
// Called by ggml_get_n_tasks (ggml-cpu.c).
int kvarn_set_rows_tasks(const struct ggml_tensor * dst, int n_threads);

// Called by every thread at the top of ggml_compute_forward_set_rows (ops.cpp).
// True: dst is, or once all threads are past the node will be, complete. False: nothing was done, upstream has to do it.
bool kvarn_maybe_set_rows(const struct ggml_compute_params * params, struct ggml_tensor * dst);

#ifdef __cplusplus
}
#endif
