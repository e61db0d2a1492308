#include "kvarn-flash-attn-multiply.h"

#include "ggml-cpu-impl.h"
#include "ggml-impl.h"
#include "simd-mappings.h"

#if defined(GGML_SIMD) && !defined(__ARM_FEATURE_SVE) && !defined(__riscv_v_intrinsic)

// Registers: RM * RN accumulators, RN columns of B, one broadcast of A.
#if defined(__AVX512F__)
constexpr int RM = 6, RN = 4;
#elif defined(__AVX__)
constexpr int RM = 6, RN = 2;
#else
constexpr int RM = 4, RN = 4;
#endif

template <int rm, int rn>
static void multiply_block(float * C, int64_t ldc, const float * A, int64_t lda, const float * B, int64_t ldb, int k) {
    GGML_F32_VEC acc[rm][rn];
    for (int i = 0; i < rm; i++) {
        for (int j = 0; j < rn; j++) {
            acc[i][j] = GGML_F32_VEC_LOAD(C + i*ldc + j*GGML_F32_EPR);
        }
    }
    for (int kk = 0; kk < k; kk++) {
        GGML_F32_VEC b[rn];
        for (int j = 0; j < rn; j++) {
            b[j] = GGML_F32_VEC_LOAD(B + kk*ldb + j*GGML_F32_EPR);
        }
        for (int i = 0; i < rm; i++) {
            const GGML_F32_VEC a = GGML_F32_VEC_SET1(A[i*lda + kk]);
            for (int j = 0; j < rn; j++) {
                acc[i][j] = GGML_F32_VEC_FMA(acc[i][j], b[j], a);
            }
        }
    }
    for (int i = 0; i < rm; i++) {
        for (int j = 0; j < rn; j++) {
            GGML_F32_VEC_STORE(C + i*ldc + j*GGML_F32_EPR, acc[i][j]);
        }
    }
}

template <int rm>
static void multiply_rows(float * C, int64_t ldc, const float * A, int64_t lda, const float * B, int64_t ldb, int k, int64_t n) {
    int64_t j = 0;
    for (; j + RN*GGML_F32_EPR <= n; j += RN*GGML_F32_EPR) {
        multiply_block<rm, RN>(C + j, ldc, A, lda, B + j, ldb, k);
    }
    for (; j < n; j += GGML_F32_EPR) {
        multiply_block<rm, 1>(C + j, ldc, A, lda, B + j, ldb, k);
    }
}

void kvarn_fa_multiply(float * C, int64_t ldc, const float * A, int64_t lda, const float * B, int64_t ldb, int m, int k, int64_t n) {
    int i = 0;
    for (; i + RM <= m; i += RM) {
        multiply_rows<RM>(C + i*ldc, ldc, A + i*lda, lda, B, ldb, k, n);
    }
    C += i*ldc;
    A += i*lda;
    switch (m - i) {
        case 5: multiply_rows<5>(C, ldc, A, lda, B, ldb, k, n); break;
        case 4: multiply_rows<4>(C, ldc, A, lda, B, ldb, k, n); break;
        case 3: multiply_rows<3>(C, ldc, A, lda, B, ldb, k, n); break;
        case 2: multiply_rows<2>(C, ldc, A, lda, B, ldb, k, n); break;
        case 1: multiply_rows<1>(C, ldc, A, lda, B, ldb, k, n); break;
        default: break;
    }
}

#else

void kvarn_fa_multiply(float * C, int64_t ldc, const float * A, int64_t lda, const float * B, int64_t ldb, int m, int k, int64_t n) {
    for (int i = 0; i < m; i++) {
        for (int kk = 0; kk < k; kk++) {
            const float a = A[i*lda + kk];
            for (int64_t j = 0; j < n; j++) {
                C[i*ldc + j] += a*B[kk*ldb + j];
            }
        }
    }
}

#endif
