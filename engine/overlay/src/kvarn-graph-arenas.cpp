#include "kvarn-graph-arena-set.h"

#include "llama-context.h"
#include "llama-impl.h"
#include "llama-memory.h"

#include <algorithm>

void kvarn_graph_arenas_enable(llama_context * ctx, const int32_t * lengths, int32_t n_lengths) {
    ctx->kvarn_arenas.enable(lengths, n_lengths);
}

void kvarn_graph_arena_set::enable(const int32_t * lengths, int32_t n_lengths) {
    this->lengths.assign(lengths, lengths + n_lengths);
}

void kvarn_graph_arena_set::exchange(llama_context & ctx, uint32_t key) {
    arena & out = parked[current];
    out.sched  = std::move(ctx.sched);
    out.graphs = std::move(ctx.gf_res_prev);
    out.active = ctx.gf_res_prev_active;

    arena & in = parked[key];
    ctx.sched              = std::move(in.sched);
    ctx.gf_res_prev        = std::move(in.graphs);
    ctx.gf_res_prev_active = in.active;

    current = key;
}

// the arena in place has no scheduler yet: makes it, with room for the longest context
bool kvarn_graph_arena_set::make(llama_context & ctx, uint32_t n_tokens) {
    ctx.sched.reset(ggml_backend_sched_new(ctx.backend_ptrs.data(), ctx.backend_buft.data(), ctx.backend_ptrs.size(),
            ctx.gf_res_reserve->get_max_nodes(), false, ctx.cparams.op_offload));
    ctx.gf_res_prev_active = nullptr;

    if (!ctx.memory) {
        return true;
    }
    const auto mctx = ctx.memory->init_full();
    return mctx && ctx.graph_reserve(n_tokens, ctx.cparams.n_seq_max, std::min(n_tokens, ctx.cparams.n_outputs_max), mctx.get());
}

void kvarn_graph_arena_set::select(llama_context & ctx, uint32_t n_tokens, bool has_outputs) {
    const bool listed = !ctx.cparams.pipeline_parallel && !ctx.cparams.training &&
        std::find(lengths.begin(), lengths.end(), n_tokens) != lengths.end();

    const uint32_t key = listed ? 2*n_tokens + (has_outputs ? 1 : 0) : MAIN;
    if (key == current) {
        return;
    }
    exchange(ctx, key);
    if (ctx.sched || make(ctx, n_tokens)) {
        return;
    }

    // no memory for it: this length shares the context's own from now on
    LLAMA_LOG_WARN("%s: no compute buffer for batches of %u tokens, their graphs will be rebuilt\n", __func__, n_tokens);
    lengths.erase(std::remove(lengths.begin(), lengths.end(), n_tokens), lengths.end());
    exchange(ctx, MAIN);
    parked.erase(key);
}

void kvarn_graph_arena_set::park(llama_context & ctx) {
    if (current != MAIN) {
        exchange(ctx, MAIN);
    }
}

void kvarn_graph_arena_set::clear(llama_context & ctx) {
    park(ctx);
    parked.clear();
}

size_t kvarn_graph_arena_set::parked_size(ggml_backend_t backend) const {
    size_t size = 0;
    for (const auto & [key, one] : parked) {
        size += one.sched ? ggml_backend_sched_get_buffer_size(one.sched.get(), backend) : 0;
    }
    return size;
}
