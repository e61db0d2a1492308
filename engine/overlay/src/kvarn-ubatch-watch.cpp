#include "kvarn-ubatch-watch.h"

#include "llama-batch.h"

#include <atomic>

static std::atomic<uint64_t> n_computed;

static std::atomic<kvarn_ubatch_listener> listener;
static std::atomic<void *>                listener_data;

void kvarn_ubatch_listen(kvarn_ubatch_listener next, void * data) {
    listener      = nullptr; // never the new listener with the old data
    listener_data = data;
    listener      = next;
}

uint64_t kvarn_ubatch_count() {
    return n_computed.load(std::memory_order_relaxed);
}

void kvarn_ubatch_on_computed(const llama_context * ctx, const llama_ubatch & ubatch) {
    n_computed.fetch_add(1, std::memory_order_relaxed);

    if (const auto tell = listener.load(std::memory_order_acquire)) {
        tell(listener_data, ctx, ubatch.n_tokens, ubatch.n_seq_id, ubatch.seq_id);
    }
}
