#pragma once

// What the backends say about the graphs their devices captured and replayed.

#include "llama.h"

#include "../ggml/src/kvarn-cuda-graph.h"

#include <string>
#include <vector>

struct kvarn_device_graphs {
    std::string            device; // e.g. CUDA0
    kvarn_cuda_graph_stats stats;
};

// one entry for each device whose backend counts; empty on a machine with none
// any thread, once the backends are loaded
LLAMA_API std::vector<kvarn_device_graphs> kvarn_device_graphs_get();
