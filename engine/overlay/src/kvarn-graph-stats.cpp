#include "kvarn-graph-stats.h"

#include "llama-graph.h"
#include "llama-kv-cache.h"
#include "llama-kv-cache-iswa.h"
#include "llama-memory-hybrid.h"
#include "llama-memory-hybrid-iswa.h"

#include <atomic>
#include <cstring>

static std::atomic<uint64_t> n_reused;
static std::atomic<uint64_t> n_rebuilt[KVARN_GRAPH_REASON_COUNT];

void kvarn_graph_stats_get(kvarn_graph_stats * stats) {
    stats->n_reused = n_reused.load(std::memory_order_relaxed);
    stats->n_built  = 0;
    for (int i = 0; i < KVARN_GRAPH_REASON_COUNT; ++i) {
        stats->n_rebuilt[i] = n_rebuilt[i].load(std::memory_order_relaxed);
        stats->n_built     += stats->n_rebuilt[i];
    }
}

const char * kvarn_graph_reason_name(int reason) {
    switch (reason) {
        case KVARN_GRAPH_REASON_REUSE_OFF:     return "reuse_off";
        case KVARN_GRAPH_REASON_NO_PREVIOUS:   return "no_previous";
        case KVARN_GRAPH_REASON_OUTPUT_SWITCH: return "output_switch";
        case KVARN_GRAPH_REASON_BATCH_SHAPE:   return "batch_shape";
        case KVARN_GRAPH_REASON_SEQUENCES:     return "sequences";
        case KVARN_GRAPH_REASON_OUTPUTS:       return "outputs";
        case KVARN_GRAPH_REASON_SAMPLERS:      return "samplers";
        case KVARN_GRAPH_REASON_PARAMS:        return "params";
        case KVARN_GRAPH_REASON_KV_GREW:       return "kv_grew";
        case KVARN_GRAPH_REASON_KV_SHRANK:     return "kv_shrank";
        case KVARN_GRAPH_REASON_INPUTS:        return "inputs";
        default:                               return nullptr;
    }
}

// padded KV cells the attention of the finished graph spans, summed over its masks
static int64_t n_kv_of(const llm_graph_result & res) {
    int64_t n_kv = 0;
    for (ggml_tensor * t = ggml_get_first_tensor(res.get_ctx()); t; t = ggml_get_next_tensor(res.get_ctx(), t)) {
        if (strcmp(t->name, "attn_inp_kq_mask") == 0) {
            n_kv += t->ne[0];
        }
    }
    return n_kv;
}

// the same for the graph to be built; 0 for kinds of memory not known here
static int64_t n_kv_of(const llama_memory_context_i * mctx) {
    if (const auto * kv = dynamic_cast<const llama_kv_cache_context *>(mctx)) {
        return kv->get_n_kv();
    }
    if (const auto * kv = dynamic_cast<const llama_kv_cache_iswa_context *>(mctx)) {
        return (int64_t) kv->get_base()->get_n_kv() + kv->get_swa()->get_n_kv();
    }
    if (const auto * hybrid = dynamic_cast<const llama_memory_hybrid_context *>(mctx)) {
        return n_kv_of(hybrid->get_attn());
    }
    if (const auto * hybrid = dynamic_cast<const llama_memory_hybrid_iswa_context *>(mctx)) {
        return n_kv_of(hybrid->get_attn());
    }
    return 0;
}

// named a friend by llm_graph_result, whose parameters are private
struct kvarn_graph_probe {
    static kvarn_graph_reason why_not(const llm_graph_result & res, const llm_graph_params & next) {
        const llm_graph_params & prev = res.params;

        const auto & a = prev.ubatch;
        const auto & b = next.ubatch;

        if (a.n_tokens     != b.n_tokens     || a.n_seqs     != b.n_seqs ||
            a.n_seq_tokens != b.n_seq_tokens || a.n_seqs_unq != b.n_seqs_unq ||
            a.equal_seqs() != b.equal_seqs() || !a.token     != !b.token || !a.embd != !b.embd) {
            return KVARN_GRAPH_REASON_BATCH_SHAPE;
        }
        if (a.equal_seqs()) {
            // without its own data the old ubatch's ids are gone, and upstream does not reuse either
            for (uint32_t s = 0; s < a.n_seqs_unq; ++s) {
                if (!a.data || a.seq_id_unq[s] != b.seq_id_unq[s]) {
                    return KVARN_GRAPH_REASON_SEQUENCES;
                }
            }
        }
        if (prev.n_outputs != next.n_outputs) {
            return KVARN_GRAPH_REASON_OUTPUTS;
        }
        if (!llm_graph_params::samplers_equal(prev.samplers, next.samplers)) {
            return KVARN_GRAPH_REASON_SAMPLERS;
        }
        if (!prev.allow_reuse(next)) {
            return prev.samplers.empty() ? KVARN_GRAPH_REASON_PARAMS : KVARN_GRAPH_REASON_SAMPLERS;
        }

        // the parameters fit, so it was an input
        const int64_t n_kv_prev = n_kv_of(res);
        const int64_t n_kv_next = n_kv_of(next.mctx);
        if (n_kv_prev == 0 || n_kv_next == 0 || n_kv_prev == n_kv_next) {
            return KVARN_GRAPH_REASON_INPUTS;
        }
        return n_kv_next > n_kv_prev ? KVARN_GRAPH_REASON_KV_GREW : KVARN_GRAPH_REASON_KV_SHRANK;
    }
};

void kvarn_graph_on_reuse() {
    n_reused.fetch_add(1, std::memory_order_relaxed);
}

void kvarn_graph_on_build(bool reuse_off, const llm_graph_result * active, const llm_graph_result * res, const llm_graph_params & next) {
    const auto reason =
        reuse_off     ? KVARN_GRAPH_REASON_REUSE_OFF :
        !active       ? KVARN_GRAPH_REASON_NO_PREVIOUS :
        active != res ? KVARN_GRAPH_REASON_OUTPUT_SWITCH : kvarn_graph_probe::why_not(*res, next);

    n_rebuilt[reason].fetch_add(1, std::memory_order_relaxed);
}
