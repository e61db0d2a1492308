#pragma once

// Counts how often libllama builds a compute graph and how often it reuses the previous one, and why it could not.
//
// Process totals over all contexts since the library was loaded (warm-up runs included): they survive a context that
// is freed and made again, so a reader may treat them as counters that never fall. Exact: every call of
// llama_context::process_ubatch() counts once, as one reuse or as one build with one reason. Reading takes no lock,
// touches no context and may happen on any thread at any time.

#include "llama.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// the first difference found, in this order
enum kvarn_graph_reason {
    KVARN_GRAPH_REASON_REUSE_OFF,     // LLAMA_GRAPH_REUSE_DISABLE is set
    KVARN_GRAPH_REASON_NO_PREVIOUS,   // first graph, or the previous one was dropped (context shift, reserve, failure)
    KVARN_GRAPH_REASON_OUTPUT_SWITCH, // the previous ubatch wanted outputs and this one does not, or the other way round
    KVARN_GRAPH_REASON_BATCH_SHAPE,   // other number of tokens or sequences, or tokens instead of embeddings
    KVARN_GRAPH_REASON_SEQUENCES,     // same shape, other sequences
    KVARN_GRAPH_REASON_OUTPUTS,       // other number of outputs
    KVARN_GRAPH_REASON_SAMPLERS,      // other samplers in the graph
    KVARN_GRAPH_REASON_PARAMS,        // adapters, embeddings mode, graph type and the like
    KVARN_GRAPH_REASON_KV_GREW,       // attention now spans more (padded) KV cells
    KVARN_GRAPH_REASON_KV_SHRANK,     // ... or fewer
    KVARN_GRAPH_REASON_INPUTS,        // another graph input does not fit, e.g. the recurrent state's head
    KVARN_GRAPH_REASON_COUNT,
};

struct kvarn_graph_stats {
    uint64_t n_reused;
    uint64_t n_built;                             // the sum of n_rebuilt
    uint64_t n_rebuilt[KVARN_GRAPH_REASON_COUNT]; // by reason
};

LLAMA_API void kvarn_graph_stats_get(struct kvarn_graph_stats * stats);

// lowercase words joined by underscores; NULL when out of range
LLAMA_API const char * kvarn_graph_reason_name(int reason);

#ifdef __cplusplus
}

class  llm_graph_result;
struct llm_graph_params;

// called by llama_context::process_ubatch() when it reuses the previous graph
void kvarn_graph_on_reuse();

// called by llama_context::process_ubatch() before it resets `res` to build the graph for `next`
//   active: the graph computed last, NULL if there is none to reuse
void kvarn_graph_on_build(bool reuse_off, const llm_graph_result * active, const llm_graph_result * res, const llm_graph_params & next);
#endif
