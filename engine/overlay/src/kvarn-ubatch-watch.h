#pragma once

// Tells one listener of every ubatch that libllama has computed, so that a long prompt can be followed while
// llama_decode() is still at work on it. On an asynchronous backend an ubatch is told when it has been submitted.

#include "llama.h"

#include <stdint.h>

// called on the thread that computes, between two ubatches: it must return within microseconds
//   seq_id: for each of the n_tokens tokens, the n_seq_id[i] sequences it belongs to
typedef void (*kvarn_ubatch_listener)(
        void * data, const struct llama_context * ctx, uint32_t n_tokens, const int32_t * n_seq_id, llama_seq_id * const * seq_id);

// one listener per process; NULL ends it. Call from the thread that computes, or before it begins.
LLAMA_API void kvarn_ubatch_listen(kvarn_ubatch_listener listener, void * data);

// ubatches computed since the library was loaded, over all contexts; any thread
LLAMA_API uint64_t kvarn_ubatch_count(void);

struct llama_ubatch;

// called by llama_context::process_ubatch() once the graph has been computed
void kvarn_ubatch_on_computed(const struct llama_context * ctx, const llama_ubatch & ubatch);
