#include "kvarn-device-graphs.h"

#include "ggml-backend.h"

std::vector<kvarn_device_graphs> kvarn_device_graphs_get() {
    std::vector<kvarn_device_graphs> res;

    for (size_t i = 0; i < ggml_backend_reg_count(); ++i) {
        ggml_backend_reg_t reg = ggml_backend_reg_get(i);

        const auto get = (kvarn_cuda_graph_stats_get_t) ggml_backend_reg_get_proc_address(reg, KVARN_CUDA_GRAPH_STATS_PROC);
        if (!get) {
            continue;
        }
        for (size_t device = 0; device < ggml_backend_reg_dev_count(reg); ++device) {
            kvarn_cuda_graph_stats stats = {};
            stats.size = sizeof(stats);
            if (get((int) device, &stats) && stats.version == KVARN_CUDA_GRAPH_STATS_VERSION) {
                res.push_back({ ggml_backend_dev_name(ggml_backend_reg_dev_get(reg, device)), stats });
            }
        }
    }

    return res;
}
