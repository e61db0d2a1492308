#include "kvarn-checkpoints.h"

#include "../../src/kvarn-state.h"

#include "kvarn-checkpoint-policy.h"
#include "kvarn-checkpoint-stats.h"
#include "server-common.h"
#include "speculative.h"

#include "ggml-backend.h"

#include <algorithm>
#include <set>

static constexpr uint64_t MIB = 1024*1024;

// a tenth of the machine's memory, at most 2 GiB; 2 GiB where the size is not known
static uint64_t default_budget() {
    size_t free  = 0;
    size_t total = 0;
    if (ggml_backend_dev_t cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU)) {
        ggml_backend_dev_memory(cpu, &free, &total);
    }
    return total > 0 ? std::min<uint64_t>(2048*MIB, total/10) : 2048*MIB;
}

void kvarn_checkpoints_begin(common_params & params) {
    const uint64_t budget = params.kvarn_ctx_checkpoints_mib < 0 ? default_budget() : params.kvarn_ctx_checkpoints_mib*MIB;
    if (budget == 0) {
        params.n_ctx_checkpoints = 0;
    }
    kvarn_checkpoint_counters().budget_bytes = params.n_ctx_checkpoints > 0 ? budget : 0;

    SRV_TRC("context checkpoints may take %.1f MiB\n", kvarn_checkpoint_counters().budget_bytes/double(MIB));
}

void kvarn_checkpoints_end() {
    kvarn_state_release();
}

bool kvarn_draft_needs_state(const llama_context * ctx_dft, common_context_seq_rm_type seq_rm_type) {
    return ctx_dft && (seq_rm_type != COMMON_CONTEXT_SEQ_RM_TYPE_PART || llama_model_n_swa(llama_get_model(ctx_dft)) > 0);
}

size_t kvarn_checkpoint_bytes(llama_context * ctx_tgt, llama_context * ctx_dft, common_speculative * spec, llama_seq_id seq_id, bool with_draft) {
    std::vector<uint8_t> data_spec;
    common_speculative_get_state(spec, seq_id, data_spec);

    return kvarn_state_size(ctx_tgt, seq_id, LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY) + data_spec.size() +
        (with_draft ? kvarn_state_size(ctx_dft, seq_id, LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY) : 0);
}

static std::vector<kvarn_prompt_view> views_of(const std::vector<kvarn_checkpoint_holder> & holders,
        const server_prompt & into, const kvarn_checkpoint_view & made) {
    std::vector<kvarn_prompt_view> views;
    for (size_t rank = 0; rank < holders.size(); ++rank) {
        const auto & holder = holders[rank];

        // busy slots are all as likely as each other; then 1/2, 1/3, ... by how long ago a prompt was used
        kvarn_prompt_view view = { holder.n_tokens, holder.last_used == INT64_MAX ? 1.0 : 1.0/(1.0 + rank), {} };
        for (const auto & ckpt : holder.prompt->checkpoints) {
            view.checkpoints.push_back({ ckpt.data_tgt.key(), ckpt.n_tokens, ckpt.size() });
        }
        if (holder.prompt == &into) {
            view.checkpoints.push_back(made);
        }
        views.push_back(std::move(view));
    }
    return views;
}

bool kvarn_checkpoints_make_room(std::vector<kvarn_checkpoint_holder> holders, const server_prompt & into, int64_t n_tokens, size_t bytes) {
    auto & counters = kvarn_checkpoint_counters();

    std::stable_sort(holders.begin(), holders.end(), [](const auto & a, const auto & b) { return a.last_used > b.last_used; });

    // what was erased may still be held by a copy under way; then it is not free yet
    if (counters.bytes + bytes > counters.budget_bytes) {
        kvarn_state_drain();
    }

    const auto plan = kvarn_plan_eviction(views_of(holders, into, { nullptr, n_tokens, bytes }), counters.bytes, counters.budget_bytes);
    if (!plan.admit) {
        ++counters.declined;
        return false;
    }

    const std::set<const void *> gone(plan.evict.begin(), plan.evict.end());
    for (auto & holder : holders) {
        holder.prompt->checkpoints.remove_if([&gone](const auto & ckpt) { return gone.count(ckpt.data_tgt.key()) > 0; });
    }
    counters.evicted += gone.size();

    return true;
}

void kvarn_checkpoints_on_made(common_prompt_checkpoint & made) {
    made.data_tgt.charge(made.data_spec.size());
    made.data_dft.charge_along();
}
