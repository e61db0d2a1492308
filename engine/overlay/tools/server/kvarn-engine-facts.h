#pragma once

#include "server-common.h"

// The "kvarn" object of GET /props: which of our endpoints exist, and what the engine decided and allocated.
// Its presence is how a client tells this engine from a plain llama-server.
//   ctx_dft: the draft context, or NULL
// Call from the main thread.
json kvarn_engine_facts(const llama_context * ctx_tgt, const llama_context * ctx_dft);
