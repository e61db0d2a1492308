#pragma once

#include "llama.h"

// Speculation decodes batches of few, alternating lengths. Upstream keeps one computed graph a context: any other shape
// in between builds it again. With arenas each listed batch length (with and without outputs) keeps a graph, a scheduler
// and a compute buffer of its own, so that a change of length changes to another finished graph.
//
// Off until enabled. Costs two small compute buffers for each length in use, one with outputs and one without; counted in the
// memory breakdown, but not seen by what fits a model to the memory, so the caller lists few lengths.

// Keep a graph for each of these ubatch lengths, made at first use with the worst case reserved; larger ones share the
// context's own. Without effect with pipeline parallelism. Call between decodes.
LLAMA_API void kvarn_graph_arenas_enable(struct llama_context * ctx, const int32_t * lengths, int32_t n_lengths);
