// Writing rows of a trellis type on the CPU with all threads. Upstream gives each thread whole rows, and a decode step has one.
// A trellis is searched, six times as dear as a scalar code, and while one thread searches the others would wait.

#pragma once

#include "ggml.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ggml_compute_params;

// Called by every thread at the top of ggml_compute_forward_set_rows (ops.cpp).
// True: dst is, or once all threads are past the node will be, complete. False: nothing was done, upstream has to do it.
bool kvarn_maybe_set_rows(const struct ggml_compute_params * params, struct ggml_tensor * dst);

#ifdef __cplusplus
}
#endif
