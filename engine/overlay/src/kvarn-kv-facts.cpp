#include "kvarn-kv-facts.h"

#include "kvarn-kv-rotation.h"
#include "llama-context.h"
#include "llama-kv-cache.h"
#include "llama-kv-cache-iswa.h"
#include "llama-memory-hybrid.h"
#include "llama-memory-hybrid-iswa.h"
#include "llama-memory-recurrent.h"

#include <algorithm>

static double bits_of(ggml_type type) {
    return 8.0*ggml_type_size(type)/ggml_blck_size(type);
}

// named a friend by llama_kv_cache, whose sizes are private
struct kvarn_kv_probe {
    static void add(kvarn_kv_facts & facts, const llama_kv_cache & kv) {
        facts.type_k   = kvarn_public_type_name(kv.type_k());
        facts.type_v   = kvarn_public_type_name(kv.type_v());
        facts.k_block_values = ggml_blck_size(kv.type_k());
        facts.v_block_values = ggml_blck_size(kv.type_v());
        facts.k_bits   = bits_of(kv.type_k());
        facts.v_bits   = bits_of(kv.type_v());
        facts.k_bytes += kv.size_k_bytes();
        facts.v_bytes += kv.size_v_bytes();
        facts.kv_pad   = std::max<int32_t>(facts.kv_pad, std::min<uint32_t>(kv.kv_pad.pad, kv.get_size()));
    }

    static void add(kvarn_kv_facts & facts, const llama_memory_recurrent & rs) {
        for (const auto * tensors : { &rs.r_l, &rs.s_l, &rs.p_l }) {
            for (const ggml_tensor * t : *tensors) {
                facts.recurrent_bytes += t ? ggml_nbytes(t) : 0;
            }
        }
    }

    static void add(kvarn_kv_facts & facts, const llama_memory_i * mem) {
        if (const auto * kv = dynamic_cast<const llama_kv_cache *>(mem)) {
            add(facts, *kv);
        } else if (const auto * iswa = dynamic_cast<const llama_kv_cache_iswa *>(mem)) {
            add(facts, *iswa->get_base());
            add(facts, *iswa->get_swa());
        } else if (const auto * rs = dynamic_cast<const llama_memory_recurrent *>(mem)) {
            add(facts, *rs);
        } else if (const auto * hybrid = dynamic_cast<const llama_memory_hybrid *>(mem)) {
            add(facts, *hybrid->get_mem_attn());
            add(facts, *hybrid->get_mem_recr());
        } else if (const auto * hybrid_iswa = dynamic_cast<const llama_memory_hybrid_iswa *>(mem)) {
            add(facts, static_cast<const llama_memory_i *>(hybrid_iswa->get_mem_attn()));
            add(facts, *hybrid_iswa->get_mem_recr());
        }
    }
};

kvarn_kv_facts kvarn_kv_facts_get(const llama_context * ctx) {
    const auto & cparams = ctx->get_cparams();

    kvarn_kv_facts facts;
    facts.flash_attn = cparams.flash_attn;
    facts.kv_unified = cparams.kv_unified;
    facts.kv_pad_asked = cparams.kv_pad;
    facts.n_ctx      = llama_n_ctx(ctx);
    facts.n_ctx_seq  = llama_n_ctx_seq(ctx);
    facts.n_ubatch   = llama_n_ubatch(ctx);

    kvarn_kv_probe::add(facts, static_cast<const llama_memory_i *>(llama_get_memory(ctx)));

    return facts;
}
