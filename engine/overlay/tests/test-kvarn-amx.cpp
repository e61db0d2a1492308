// Products in AMX tiles: a weight in the AMX buffer gives what it gives in plain memory. Passes with a word where there is no AMX.
// Prints one line per broken rule; exits 1 if there was any.

#include "test-kvarn-expect.h"
#include "test-kvarn-vectors.h"

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"

#include <cstring>
#include <vector>

static ggml_backend_buffer_type_t amx_buffer_type() {
    ggml_backend_dev_t cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    const auto types = (ggml_backend_dev_get_extra_bufts_t)
        ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(cpu), "ggml_backend_dev_get_extra_bufts");
    for (ggml_backend_buffer_type_t * type = types ? types(cpu) : nullptr; type && *type; ++type) {
        if (strcmp(ggml_backend_buft_name(*type), "AMX") == 0) {
            return *type;
        }
    }
    return nullptr;
}

// weights[n_out][n_in] * inputs[n_rows][n_in], the weights in a buffer of that type
static std::vector<float> product(ggml_backend_t cpu, ggml_backend_buffer_type_t buft, ggml_type type, int64_t n_in, int64_t n_out, int64_t n_rows) {
    ggml_context * kept   = ggml_init({ 4*ggml_tensor_overhead(), nullptr, true });
    ggml_context * passed = ggml_init({ 4*ggml_tensor_overhead() + ggml_graph_overhead(), nullptr, true });
    ggml_tensor * weights = ggml_new_tensor_2d(kept, type, n_in, n_out);
    ggml_tensor * inputs  = ggml_new_tensor_2d(passed, GGML_TYPE_F32, n_in, n_rows);
    ggml_tensor * outputs = ggml_mul_mat(passed, weights, inputs);
    ggml_cgraph * graph   = ggml_new_graph(passed);
    ggml_build_forward_expand(graph, outputs);

    ggml_backend_buffer_t memory[] = { ggml_backend_alloc_ctx_tensors_from_buft(kept, buft), ggml_backend_alloc_ctx_tensors(passed, cpu) };
    ggml_backend_buffer_set_usage(memory[0], GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    std::vector<char> stored(ggml_nbytes(weights));
    ggml_quantize_chunk(type, gaussian(n_in*n_out, 1).data(), stored.data(), 0, n_out, n_in, nullptr);
    ggml_backend_tensor_set(weights, stored.data(), 0, stored.size());
    ggml_backend_tensor_set(inputs, gaussian(n_in*n_rows, 2).data(), 0, ggml_nbytes(inputs));

    EXPECT(ggml_backend_graph_compute(cpu, graph) == GGML_STATUS_SUCCESS, "%s", ggml_type_name(type));
    std::vector<float> y(ggml_nelements(outputs));
    ggml_backend_tensor_get(outputs, y.data(), 0, ggml_nbytes(outputs));
    for (ggml_backend_buffer_t buffer : memory) {
        ggml_backend_buffer_free(buffer);
    }
    ggml_free(kept);
    ggml_free(passed);
    return y;
}

int main() {
    ggml_backend_t cpu = ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, nullptr);
    ggml_backend_buffer_type_t amx = amx_buffer_type();
    if (!amx) {
        printf("no AMX here\n");
        ggml_backend_free(cpu);
        return 0;
    }
    for (ggml_type type : { GGML_TYPE_Q4_0, GGML_TYPE_Q4_1, GGML_TYPE_Q8_0, GGML_TYPE_Q4_K, GGML_TYPE_Q5_K, GGML_TYPE_Q6_K, GGML_TYPE_IQ4_XS }) {
        for (int n_threads : { 1, 3 }) {  // the configuration belongs to a thread
            ggml_backend_cpu_set_n_threads(cpu, n_threads);
            for (int64_t n_rows : { 1, 2, 33, 70 }) {
                const auto plain = product(cpu, ggml_backend_cpu_buffer_type(), type, 512, 96, n_rows);
                const double e = relative_error(plain, product(cpu, amx, type, 512, 96, n_rows));
                EXPECT(e < 1e-4, "%s, %d rows, %d threads: %g", ggml_type_name(type), (int) n_rows, n_threads, e);
            }
        }
    }
    ggml_backend_free(cpu);
    printf("%s\n", n_broken ? "FAILED" : "all kept");
    return n_broken ? 1 : 0;
}
