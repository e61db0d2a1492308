#include "kvarn-engine-facts.h"
#include "kvarn-spec-metrics.h"

#include "../../src/kvarn-kv-facts.h"
#include "../../src/kvarn-kv-pad.h"

// `auto`, or the step in cells
static json pad_of(int32_t pad) {
    return pad < 0 ? json(nullptr) : pad == KVARN_KV_PAD_AUTO ? json("auto") : json(std::max(pad, (int32_t) KVARN_KV_PAD_STEP));
}

static json memory_of(const llama_context * ctx) {
    const kvarn_kv_facts facts = kvarn_kv_facts_get(ctx);

    return {
        { "kv_k",             facts.type_k.empty() ? json(nullptr) : json(facts.type_k) },
        { "kv_v",             facts.type_v.empty() ? json(nullptr) : json(facts.type_v) },
        { "kv_k_bits",        facts.type_k.empty() ? json(nullptr) : json(facts.k_bits) },
        { "kv_v_bits",        facts.type_v.empty() ? json(nullptr) : json(facts.v_bits) },
        { "kv_k_block_values", facts.type_k.empty() ? json(nullptr) : json(facts.k_block_values) },
        { "kv_v_block_values", facts.type_v.empty() ? json(nullptr) : json(facts.v_block_values) },
        { "kv_bytes",         facts.k_bytes + facts.v_bytes },
        { "kv_k_bytes",       facts.k_bytes },
        { "kv_v_bytes",       facts.v_bytes },
        { "recurrent_bytes",  facts.recurrent_bytes },
        { "flash_attention",  facts.flash_attn },
        { "kv_unified",       facts.kv_unified },
        { "kv_pad_asked",     pad_of(facts.kv_pad_asked) },
        { "kv_pad",           pad_of(facts.kv_pad) },
        { "context_tokens",   facts.n_ctx },
        { "context_per_slot", facts.n_ctx_seq },
        { "ubatch_tokens",    facts.n_ubatch },
    };
}

json kvarn_engine_facts(const llama_context * ctx_tgt, const llama_context * ctx_dft) {
    json facts = memory_of(ctx_tgt);

    facts["draft"]    = ctx_dft ? memory_of(ctx_dft) : json(nullptr);
    facts["features"]    = json::array({ "graph_stats", "requests", "live", "speculation" });
    facts["speculation"] = kvarn_spec_facts();

    return facts;
}
