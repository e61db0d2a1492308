// The rotation of a cache on the CPU: bit for bit the sums of upstream's transform, for every length, with and without signs, and
// near the product with the dense matrix. Prints one line per broken rule; exits 1 if there was any.

#include "test-kvarn-kv-blocks.h"

#include "../ggml/src/kvarn-kv-types.h"

#include <cmath>
#include <cstring>
#include <limits>

static const int32_t hints[] = { GGML_HINT_SRC0_IS_HADAMARD, KVARN_HINT_ROTATE, KVARN_HINT_UNROTATE };

static void flip_signs(float * x, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
        x[i] = kvarn_sign_bit((uint32_t) i) ? -x[i] : x[i];
    }
}

// value by value, in upstream's order: partners at a distance of 1, 2, 4, ...
static std::vector<float> transformed(std::vector<float> x, int64_t n, int32_t hint) {
    const float scale = 1.0f/sqrtf((float) n);
    for (float & v : x) {
        v *= scale;
    }
    for (float * row = x.data(); row < x.data() + x.size(); row += n) {
        if (hint == KVARN_HINT_ROTATE) {
            flip_signs(row, n);
        }
        for (int64_t len = 1; len < n; len *= 2) {
            for (int64_t i = 0; i < n; ++i) {
                if ((i & len) == 0) {
                    const float u = row[i], v = row[i + len];
                    row[i]       = u + v;
                    row[i + len] = u - v;
                }
            }
        }
        if (hint == KVARN_HINT_UNROTATE) {
            flip_signs(row, n);
        }
    }
    return x;
}

// what the backend makes of rows of n; the matrix is not read where it transforms
static std::vector<float> computed(const std::vector<float> & x, int64_t n, int32_t hint, int n_threads) {
    ggml_context * ctx = ggml_init({ (size_t) (n*n*4 + 16*x.size() + (1 << 20)), nullptr, false });
    ggml_tensor * matrix = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, n, n);
    ggml_tensor * rows   = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, n, x.size()/n);
    memset(matrix->data, 0, ggml_nbytes(matrix));
    memcpy(rows->data, x.data(), ggml_nbytes(rows));
    ggml_tensor * result = ggml_mul_mat(ctx, matrix, rows);
    result->op_params[1] = hint;
    ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, result);
    ggml_graph_compute_with_ctx(ctx, graph, n_threads);
    std::vector<float> y(x.size());
    memcpy(y.data(), result->data, ggml_nbytes(result));
    ggml_free(ctx);
    return y;
}

static void test_bits_are_upstreams() {
    for (int64_t n = 16; n <= 2048; n *= 2) {
        for (int32_t hint : hints) {
            for (int n_rows = 1; n_rows <= 5; ++n_rows) {
                auto x = gaussian((size_t) (n*n_rows), (unsigned) n, 3.0f);
                x[3] = 0.0f;
                x[4] = -0.0f;
                x[n - 1] = 1e-42f;
                x[n/2] = 65504.0f;
                const auto y = computed(x, n, hint, 1 + n_rows % 3), z = transformed(x, n, hint);
                EXPECT(memcmp(y.data(), z.data(), 4*y.size()) == 0, "%lld values, hint %x", (long long) n, hint);
            }
        }
    }
}

static void test_the_product_with_the_matrix() {
    const int64_t n = 256;
    const auto x = gaussian(n, 5);
    for (int32_t hint : hints) {
        const auto y = computed(x, n, hint, 1);
        for (int64_t i = 0; i < n; ++i) {
            double sum = 0;
            for (int64_t j = 0; j < n; ++j) {
                bool minus = __builtin_parityll((unsigned long long) (i & j));
                minus ^= hint == KVARN_HINT_ROTATE   && kvarn_sign_bit((uint32_t) j);
                minus ^= hint == KVARN_HINT_UNROTATE && kvarn_sign_bit((uint32_t) i);
                sum += minus ? -x[j] : x[j];
            }
            EXPECT(std::fabs(y[i] - sum/16.0) < 1e-5, "hint %x, value %lld: %g, not %g", hint, (long long) i, y[i], sum/16.0);
        }
    }
}

static void test_one_undoes_the_other() {
    for (int64_t n : { 64, 128, 512, 1024 }) {
        const auto x = gaussian(n, 6);
        const auto y = computed(computed(x, n, KVARN_HINT_ROTATE, 1), n, KVARN_HINT_UNROTATE, 1);
        for (int64_t i = 0; i < n; ++i) {
            EXPECT(std::fabs(y[i] - x[i]) < 1e-5f, "%lld values: %g, not %g", (long long) n, y[i], x[i]);
        }
    }
}

// a number that is none spoils its own row only
static void test_rows_do_not_mix() {
    for (float odd : { std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity() }) {
        auto x = gaussian(3*64, 7);
        x[64 + 9] = odd;
        const auto y = computed(x, 64, KVARN_HINT_ROTATE, 2);
        for (int i = 0; i < 3*64; ++i) {
            EXPECT(std::isfinite(y[i]) == (i/64 != 1), "value %d of %g", i, odd);
        }
    }
}

int main() {
    ggml_cpu_init();
    for (auto test : { test_bits_are_upstreams, test_the_product_with_the_matrix, test_one_undoes_the_other, test_rows_do_not_mix }) {
        test();
    }
    printf("%s\n", n_broken ? "FAILED" : "all kept");
    return n_broken ? 1 : 0;
}
