// Rows of our types as a cache is written: the reference's bytes, whoever writes which part.
// Prints one line per broken rule; exits 1 if there was any.

#include "test-kvarn-kv-blocks.h"

#include <algorithm>
#include <cstring>

// scattered, of several streams, from a wider tensor; a row may be cut between threads
static void test_any_number_of_threads_writes_the_same_rows() {
    const int n_cols = 384, n_rows = 3, n_streams = 2, n_cells = 7;
    for (const kv_type & t : kv_types) {
        for (int n_threads = 1; n_threads <= 7; n_threads++) {
            ggml_context * ctx = ggml_init({ 1 << 20, nullptr, false });
            ggml_tensor * wide  = ggml_new_tensor_3d(ctx, GGML_TYPE_F32, n_cols + 8, n_rows, n_streams);
            ggml_tensor * rows  = ggml_view_3d(ctx, wide, n_cols, n_rows, n_streams, wide->nb[1], wide->nb[2], 0);
            ggml_tensor * index = ggml_new_tensor_2d(ctx, n_threads % 2 ? GGML_TYPE_I64 : GGML_TYPE_I32, n_rows, 1);
            ggml_tensor * cache = ggml_new_tensor_3d(ctx, t.type, n_cols, n_cells, n_streams);
            const std::vector<float> x = gaussian(ggml_nelements(wide), 11);
            memcpy(wide->data, x.data(), ggml_nbytes(wide));
            memset(cache->data, 0xee, ggml_nbytes(cache));
            for (int i = 0; i < n_rows; i++) {
                const int64_t cell = 5 - 2*i;
                memcpy((char *) index->data + i*index->nb[0], &cell, index->nb[0]);
            }
            std::vector<uint8_t> expected(ggml_nbytes(cache), 0xee);
            for (int i = 0; i < n_rows*n_streams; i++) {
                const auto first = x.begin() + i*(n_cols + 8);
                const std::vector<uint8_t> row = encoded(t, { first, first + n_cols });
                std::copy(row.begin(), row.end(), expected.begin() + (i/n_rows)*cache->nb[2] + (5 - 2*(i%n_rows))*cache->nb[1]);
            }
            ggml_cgraph * graph = ggml_new_graph(ctx);
            ggml_build_forward_expand(graph, ggml_set_rows(ctx, cache, rows, index));
            ggml_build_forward_expand(graph, ggml_add(ctx, wide, wide)); // a graph of cheap nodes alone gets one thread
            ggml_graph_compute_with_ctx(ctx, graph, n_threads);
            EXPECT(memcmp(cache->data, expected.data(), expected.size()) == 0, "%s, %d threads", t.name, n_threads);
            ggml_free(ctx);
        }
    }
}

int main() {
    ggml_cpu_init();
    test_any_number_of_threads_writes_the_same_rows();
    printf("%s\n", n_broken ? "FAILED" : "all kept");
    return n_broken ? 1 : 0;
}
