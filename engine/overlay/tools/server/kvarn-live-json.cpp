#include "kvarn-live-json.h"

#include "kvarn-live-section.h"
#include "kvarn-requests.h"

#include "../../src/kvarn-kv-pad.h"

static double ms(int64_t us) {
    return us / 1000.0;
}

// null where nothing was counted yet: a speed of 0 would be a measurement
static json per_second(uint64_t n, int64_t t_us) {
    return n > 0 && t_us > 0 ? json(1e6*n/t_us) : json(nullptr);
}

static json name_or_null(const std::string & name) {
    return name.empty() ? json(nullptr) : json(name);
}

static json slot_to_json(const kvarn_live_slot & slot) {
    // the first token comes out of the prompt's last batch: it took no step of its own
    const uint64_t n_decode_steps = slot.n_decoded > 0 ? slot.n_decoded - 1 : 0;

    return {
        { "id",                slot.id },
        { "phase",             kvarn_live_phase_name(slot.phase) },
        { "task",              slot.id_task < 0 ? json(nullptr) : json(slot.id_task) },
        { "n_ctx",             slot.n_ctx },
        { "held",              slot.n_held },
        { "prompt",            {{ "total", slot.n_prompt }, { "cached", slot.n_cached }, { "processed", slot.n_processed }} },
        { "decoded",           slot.n_decoded },
        { "drafted",           slot.n_drafted },
        { "draft_accepted",    slot.n_draft_accepted },
        { "prefill_ms",        ms(slot.t_prefill_us) },
        { "decode_ms",         ms(slot.t_decode_us) },
        { "prefill_tok_per_s", per_second(slot.n_processed, slot.t_prefill_us) },
        { "decode_tok_per_s",  per_second(n_decode_steps, slot.t_decode_us) },
        { "checkpoints",       {{ "count", slot.n_checkpoints }, { "bytes", slot.checkpoint_bytes }} },
    };
}

static json slots_to_json(const std::vector<kvarn_live_slot> & slots) {
    json list = json::array();
    for (const auto & slot : slots) {
        list.push_back(slot_to_json(slot));
    }
    return list;
}

static json requests_to_json(const kvarn_live_reading & reading) {
    size_t n_processing = 0;
    for (const auto & slot : reading.slots) {
        n_processing += slot.t_start_us != 0 || slot.phase == KVARN_LIVE_WAIT || slot.phase == KVARN_LIVE_PREFILL;
    }
    return {
        { "processing", n_processing },
        { "waiting",    reading.engine.n_waiting },
        { "finished",   kvarn_requests_last_seq() },
    };
}

static json tokens_to_json(const kvarn_live_engine & engine) {
    return {
        { "prompt_total",         engine.n_prompt },
        { "prompt_cached_total",  engine.n_cached },
        { "generated_total",      engine.n_generated },
        { "prompt_ms_total",      ms(engine.t_prompt_us) },
        { "generated_ms_total",   ms(engine.t_generated_us) },
        { "drafted_total",        engine.n_drafted },
        { "draft_accepted_total", engine.n_draft_accepted },
    };
}

static json steps_to_json(const kvarn_live_engine & engine) {
    return {
        { "count",             engine.n_steps },
        { "decode_ms_total",   ms(engine.t_decode_us) },
        { "sampling_ms_total", ms(engine.t_sampling_us) },
        { "other_ms_total",    ms(engine.t_other_us) },
        { "last", engine.n_steps == 0 ? json(nullptr) : json{
            { "tokens",      engine.n_last_tokens },
            { "decode_ms",   ms(engine.t_last_decode_us) },
            { "sampling_ms", ms(engine.t_last_sampling_us) },
            { "other_ms",    ms(engine.t_last_other_us) },
        }},
    };
}

static json graphs_to_json(const kvarn_live_engine & engine) {
    json     reasons = json::object();
    uint64_t n_built = 0;
    for (int i = 0; i < KVARN_GRAPH_REASON_COUNT; ++i) {
        reasons[kvarn_graph_reason_name(i)] = engine.n_graph_built[i];
        n_built += engine.n_graph_built[i];
    }
    return {
        { "ubatches", engine.n_ubatches },
        { "built",    n_built },
        { "reused",   engine.n_graph_reused },
        { "reasons",  reasons },
    };
}

static json caches_to_json(const kvarn_live_engine & engine, const kvarn_live_memory & memory) {
    json list = json::array();
    for (size_t i = 0; i < memory.caches.size() && i < KVARN_LIVE_MAX_CACHES; ++i) {
        const auto & cache = memory.caches[i];
        list.push_back({
            { "context",    cache.context },
            { "kind",       cache.kind },
            { "type_k",     name_or_null(cache.type_k) },
            { "type_v",     name_or_null(cache.type_v) },
            { "k_bytes",    cache.k_bytes },
            { "v_bytes",    cache.v_bytes },
            { "cells",      cache.n_cells },
            { "cells_used", engine.n_cells_used[i] },
        });
    }
    return list;
}

// the padding of the first attention cache, for the cells it holds now
static json pad_to_json(const kvarn_live_engine & engine, const kvarn_live_memory & memory) {
    size_t first = 0;
    while (first < memory.caches.size() && memory.caches[first].type_k.empty()) {
        ++first;
    }
    const bool     is_known = first < memory.caches.size() && first < KVARN_LIVE_MAX_CACHES;
    const uint32_t n_used   = is_known ? (uint32_t) engine.n_cells_used[first] : 0;
    const uint16_t pad      = (uint16_t) memory.kv_pad;
    return {
        { "policy", pad == KVARN_KV_PAD_AUTO ? "auto" : "fixed" },
        { "cells",  kvarn_kv_pad_step(pad, n_used) },
    };
}

static json kv_to_json(const kvarn_live_engine & engine, const kvarn_live_memory & memory) {
    json kv = {{ "caches", caches_to_json(engine, memory) }};
    if (memory.kv_pad >= 0) {
        kv["pad"] = pad_to_json(engine, memory);
    }
    return kv;
}

static json memory_to_json(const kvarn_live_memory & memory) {
    json buffers = json::array();
    for (const auto & buffer : memory.buffers) {
        buffers.push_back({
            { "context",       buffer.context },
            { "name",          buffer.name },
            { "device",        name_or_null(buffer.device) },
            { "host",          buffer.is_host },
            { "model_bytes",   buffer.model_bytes },
            { "context_bytes", buffer.context_bytes },
            { "compute_bytes", buffer.compute_bytes },
        });
    }
    json devices = json::array();
    for (const auto & device : memory.devices) {
        devices.push_back({
            { "name",        device.name },
            { "description", device.description },
            { "total_bytes", device.total_bytes },
            { "free_bytes",  device.knows_free ? json(device.free_bytes) : json(nullptr) },
        });
    }
    return {{ "buffers", buffers }, { "devices", devices }};
}

static json checkpoints_to_json(const kvarn_live_reading & reading) {
    uint64_t n     = reading.engine.n_cache_checkpoints;
    uint64_t bytes = reading.engine.cache_checkpoint_bytes;
    for (const auto & slot : reading.slots) {
        n     += slot.n_checkpoints;
        bytes += slot.checkpoint_bytes;
    }
    return {{ "count", n }, { "bytes", bytes }};
}

static json prompt_cache_to_json(const kvarn_live_engine & engine) {
    if (!engine.has_prompt_cache) {
        return nullptr;
    }
    return {
        { "entries",     engine.n_cache_entries },
        { "bytes",       engine.cache_bytes },
        { "limit_bytes", engine.cache_limit_bytes ? json(engine.cache_limit_bytes) : json(nullptr) },
    };
}

json kvarn_live_to_json(const kvarn_live_reading & reading, const kvarn_live_memory & memory, uint64_t seq) {
    const kvarn_live_engine & engine = reading.engine;

    json root = {
        { "version",       1 },
        { "seq",           seq },
        { "published",     reading.number },
        { "start_unix_ms", kvarn_live_start_unix_ms() },
        { "published_ns",  engine.t_published_ns },
        { "now_ns",        kvarn_live_now_ns() },
        { "state",         engine.is_sleeping ? "sleeping" : "ready" },
        { "slots",         slots_to_json(reading.slots) },
        { "requests",      requests_to_json(reading) },
        { "tokens",        tokens_to_json(engine) },
        { "steps",         steps_to_json(engine) },
        { "kv",            kv_to_json(engine, memory) },
        { "graphs",        graphs_to_json(engine) },
        { "memory",        memory_to_json(memory) },
        { "checkpoints",   checkpoints_to_json(reading) },
        { "prompt_cache",  prompt_cache_to_json(engine) },
    };
    for (const auto & section : kvarn_live_sections()) {
        section.add_json(root);
    }
    return root;
}
