#pragma once

#include <cstdint>

// C[m][n] += A[m][k] * B[k][n], all f32; n is a multiple of 16, ld* are the distances between rows in floats.
void kvarn_fa_multiply(float * C, int64_t ldc, const float * A, int64_t lda, const float * B, int64_t ldb, int m, int k, int64_t n);
