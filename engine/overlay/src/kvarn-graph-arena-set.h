#pragma once

// The member of llama_context behind kvarn-graph-arenas.h.

#include "kvarn-graph-arenas.h"

#include "llama-graph.h"
#include "ggml-cpp.h"

#include <array>
#include <map>
#include <vector>

struct llama_context;

// exchanges the scheduler and the computed graphs of its context
class kvarn_graph_arena_set {
public:
    void enable(const int32_t * lengths, int32_t n_lengths);

    // the next ubatch is computed in the arena for its shape; called before the context looks for its previous graph
    void select(llama_context & ctx, uint32_t n_tokens, bool has_outputs);

    // the context's own scheduler and graphs are back in place
    void park(llama_context & ctx);

    // ... and the others are gone
    void clear(llama_context & ctx);

    // bytes on this backend of the compute buffers that are not in place
    size_t parked_size(ggml_backend_t backend) const;

private:
    struct arena {
        ggml_backend_sched_ptr              sched;
        std::array<llm_graph_result_ptr, 2> graphs;
        llm_graph_result *                  active = nullptr;
    };

    static constexpr uint32_t MAIN = 0;

    bool make(llama_context & ctx, uint32_t n_tokens);
    void exchange(llama_context & ctx, uint32_t key);

    std::vector<uint32_t>     lengths;
    std::map<uint32_t, arena> parked; // by 2*n_tokens + has_outputs, MAIN for the context's own
    uint32_t                  current = MAIN;
};
