#include "kvarn-state-blob.h"

#include "kvarn-checkpoint-stats.h"

#include "../src/kvarn-state.h"

#include "ggml.h"

size_t kvarn_state_blob::size() const {
    return bytes ? bytes->size() : 0;
}

void kvarn_state_blob::save(llama_context * ctx, llama_seq_id seq_id, llama_state_seq_flags flags) {
    bytes = kvarn_state_save(ctx, seq_id, flags, std::move(bytes));
}

void kvarn_state_blob::load(llama_context * ctx, llama_seq_id seq_id, llama_state_seq_flags flags) const {
    if (!kvarn_state_load(ctx, *bytes, seq_id, flags)) {
        GGML_ABORT("a checkpoint of %zu bytes does not fit its context\n", bytes->size());
    }
    if (bytes->is_counted()) {
        ++kvarn_checkpoint_counters().restored;
    }
}

void kvarn_state_blob::charge(size_t extra) {
    auto & counters = kvarn_checkpoint_counters();
    bytes->charge(counters.bytes, extra, &counters.count);
    ++counters.saved;
}

void kvarn_state_blob::charge_along() {
    if (bytes) {
        bytes->charge(kvarn_checkpoint_counters().bytes, 0, nullptr);
    }
}
