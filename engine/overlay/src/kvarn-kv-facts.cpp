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

// a context's memories, taken apart
struct kvarn_kv_parts {
    const llama_kv_cache         * full      = nullptr;
    const llama_kv_cache         * window    = nullptr;
    const llama_memory_recurrent * recurrent = nullptr;

    explicit kvarn_kv_parts(const llama_memory_i * mem) {
        if (const auto * kv = dynamic_cast<const llama_kv_cache *>(mem)) {
            full = kv;
        } else if (const auto * iswa = dynamic_cast<const llama_kv_cache_iswa *>(mem)) {
            set(*iswa);
        } else if (const auto * rs = dynamic_cast<const llama_memory_recurrent *>(mem)) {
            recurrent = rs;
        } else if (const auto * hybrid = dynamic_cast<const llama_memory_hybrid *>(mem)) {
            full      = hybrid->get_mem_attn();
            recurrent = hybrid->get_mem_recr();
        } else if (const auto * hybrid_iswa = dynamic_cast<const llama_memory_hybrid_iswa *>(mem)) {
            set(*hybrid_iswa->get_mem_attn());
            recurrent = hybrid_iswa->get_mem_recr();
        }
    }

private:
    void set(const llama_kv_cache_iswa & iswa) {
        full   = iswa.get_base();
        window = iswa.get_swa();
    }
};

// named a friend by llama_kv_cache, whose sizes are private
struct kvarn_kv_probe {
    static kvarn_kv_cache describe(const char * role, const llama_kv_cache & kv) {
        return { role, kvarn_public_type_name(kv.type_k()), kvarn_public_type_name(kv.type_v()),
                 kv.size_k_bytes(), kv.size_v_bytes(), kv.get_size()*kv.get_n_stream() };
    }

    static uint32_t n_used(const llama_kv_cache & kv) {
        uint32_t n_used = 0;
        for (const auto & cells : kv.v_cells) {
            n_used += cells.get_used();
        }
        return n_used;
    }

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

    const kvarn_kv_parts parts(llama_get_memory(ctx));
    for (const auto * kv : { parts.full, parts.window }) {
        if (kv) {
            kvarn_kv_probe::add(facts, *kv);
        }
    }
    if (parts.recurrent) {
        kvarn_kv_probe::add(facts, *parts.recurrent);
    }

    return facts;
}

std::vector<kvarn_kv_cache> kvarn_kv_caches_get(const llama_context * ctx) {
    const kvarn_kv_parts parts(llama_get_memory(ctx));

    std::vector<kvarn_kv_cache> caches;
    if (parts.full) {
        caches.push_back(kvarn_kv_probe::describe("full", *parts.full));
    }
    if (parts.window) {
        caches.push_back(kvarn_kv_probe::describe("window", *parts.window));
    }
    if (parts.recurrent) {
        kvarn_kv_facts facts;
        kvarn_kv_probe::add(facts, *parts.recurrent);
        caches.push_back({ "recurrent", "", "", facts.recurrent_bytes, 0, parts.recurrent->size });
    }
    return caches;
}

size_t kvarn_kv_cells_used(const llama_context * ctx, uint32_t * n_used, size_t n_max) {
    const kvarn_kv_parts parts(llama_get_memory(ctx));

    size_t n = 0;
    const auto put = [&](uint32_t used) {
        if (n < n_max) {
            n_used[n] = used;
        }
        n++;
    };
    for (const auto * kv : { parts.full, parts.window }) {
        if (kv) {
            put(kvarn_kv_probe::n_used(*kv));
        }
    }
    if (parts.recurrent) {
        put(parts.recurrent->used);
    }
    return n;
}
