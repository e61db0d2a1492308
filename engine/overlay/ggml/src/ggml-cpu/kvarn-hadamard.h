#pragma once

// A row of a cache's rotation, in registers.

#include <cstdint>

// x = H*D*x, D*H*x or H*x, as the hint of the mul_mat says; x is already scaled by 1/sqrt(n). False, and x as it was, where this CPU
// or this n has no fast way. The sums are those of ggml_compute_forward_fwht() in the same order, so the bits are upstream's.
bool kvarn_maybe_hadamard(int32_t hint, float * x, int64_t n);
