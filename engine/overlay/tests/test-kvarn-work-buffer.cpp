// The work buffer of a CPU graph may begin anywhere: the answers are the same, and nothing is written behind it.
// Prints one line per broken rule; exits 1 if there was any.

#include "test-kvarn-expect.h"

#include "ggml.h"
#include "ggml-cpu.h"

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

static ggml_tensor * filled(ggml_context * ctx, ggml_type type, int64_t n0, int64_t n1, int64_t n2) {
    std::mt19937 engine((unsigned) (n0 + n1));
    std::normal_distribution<float> normal;
    std::vector<float> x(n0*n1*n2);
    for (float & v : x) {
        v = normal(engine);
    }
    ggml_tensor * t = ggml_new_tensor_3d(ctx, type, n0, n1, n2);
    if (type == GGML_TYPE_F32) {
        memcpy(t->data, x.data(), ggml_nbytes(t));
    } else {
        ggml_quantize_chunk(type, x.data(), t->data, 0, n1*n2, n0, nullptr);
    }
    return t;
}

using node_of = ggml_tensor * (*)(ggml_context *);

static ggml_tensor * attention(ggml_context * ctx, ggml_type type, int n_queries) {
    ggml_tensor * q = filled(ctx, GGML_TYPE_F32, 64, n_queries, 6);
    ggml_tensor * k = filled(ctx, type, 64, 512, 2);
    ggml_tensor * v = filled(ctx, type, 64, 512, 2);
    ggml_tensor * mask = ggml_new_tensor_2d(ctx, GGML_TYPE_F16, 512, n_queries);
    memset(mask->data, 0, ggml_nbytes(mask));
    return ggml_flash_attn_ext(ctx, q, k, v, mask, 0.125f, 0.0f, 0.0f);
}

static const struct {
    const char * name;
    node_of      make;
} nodes[] = {
    { "a prompt over f16",  [](ggml_context * ctx) { return attention(ctx, GGML_TYPE_F16, 70); } },
    { "a token over f16",   [](ggml_context * ctx) { return attention(ctx, GGML_TYPE_F16, 1); } },
    { "a prompt over q8_0", [](ggml_context * ctx) { return attention(ctx, GGML_TYPE_Q8_0, 70); } },
    { "a product", [](ggml_context * ctx) {
        return ggml_mul_mat(ctx, filled(ctx, GGML_TYPE_Q8_0, 256, 96, 1), filled(ctx, GGML_TYPE_F32, 256, 40, 1)); } },
};

// the node's values, with a work buffer that begins so many bytes after a cache line
static std::vector<float> computed(node_of make, int n_threads, size_t after, const char * name) {
    ggml_context * ctx = ggml_init({ 8 << 20, nullptr, false });
    ggml_tensor * node = make(ctx);
    ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, node);
    ggml_cplan plan = ggml_graph_plan(graph, n_threads, nullptr);

    const size_t line = 256, fence = 4096;
    std::vector<uint8_t> memory(line + after + plan.work_size + fence, 0xa5);
    uint8_t * begin = (uint8_t *) GGML_PAD((uintptr_t) memory.data(), line) + after;
    plan.work_data = begin;
    ggml_graph_compute(graph, &plan);

    for (const uint8_t * p = begin + plan.work_size; p < memory.data() + memory.size(); ++p) {
        if (*p != 0xa5) {
            EXPECT(false, "%s, %d threads: byte %zu behind the buffer", name, n_threads, (size_t) (p - begin) - plan.work_size);
            break;
        }
    }
    std::vector<float> y(ggml_nelements(node));
    memcpy(y.data(), node->data, ggml_nbytes(node));
    ggml_free(ctx);
    return y;
}

int main() {
    ggml_cpu_init();
    for (const auto & node : nodes) {
        for (int n_threads = 1; n_threads <= 3; ++n_threads) {
            const auto expected = computed(node.make, n_threads, 0, node.name);
            for (size_t after : { 4, 16, 36, 60, 124 }) {
                EXPECT(computed(node.make, n_threads, after, node.name) == expected, "%s, %d threads, %zu bytes on", node.name, n_threads, after);
            }
        }
    }
    printf("%s\n", n_broken ? "FAILED" : "all kept");
    return n_broken ? 1 : 0;
}
