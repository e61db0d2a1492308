#include "kvarn-live.h"

#include "kvarn-live-cell.h"
#include "kvarn-live-memory.h"

#include "../../src/kvarn-kv-facts.h"
#include "../../src/kvarn-ubatch-watch.h"

#include "ggml.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <type_traits>

static_assert(std::is_trivially_copyable<kvarn_live_engine>::value && sizeof(kvarn_live_engine) % sizeof(uint64_t) == 0, "copied as words");
static_assert(std::is_trivially_copyable<kvarn_live_slot  >::value && sizeof(kvarn_live_slot)   % sizeof(uint64_t) == 0, "copied as words");

static constexpr size_t ENGINE_WORDS = sizeof(kvarn_live_engine)/sizeof(uint64_t);
static constexpr size_t SLOT_WORDS   = sizeof(kvarn_live_slot)  /sizeof(uint64_t);

static const auto t_start_steady = std::chrono::steady_clock::now();
static const auto t_start_wall   = std::chrono::system_clock::now();

int64_t kvarn_live_now_ns() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - t_start_steady).count();
}

int64_t kvarn_live_start_unix_ms() {
    return std::chrono::duration_cast<std::chrono::milliseconds>(t_start_wall.time_since_epoch()).count();
}

const char * kvarn_live_phase_name(uint32_t phase) {
    static const char * const names[KVARN_LIVE_PHASE_COUNT] = {
        "idle", "wait", "prefill", "decode", "checkpoint_save", "checkpoint_restore",
        "cache_save", "cache_load", "slot_save", "slot_restore",
    };
    return phase < KVARN_LIVE_PHASE_COUNT ? names[phase] : "idle";
}

//
// the thread that computes
//

struct kvarn_live_stage {
    kvarn_live_engine            engine = {};
    std::vector<kvarn_live_slot> slots;

    std::vector<uint64_t> words; // the engine, then the slots, as they are published

    const llama_context * ctx_tgt = nullptr;
    const llama_context * ctx_dft = nullptr;

    int64_t t_prompt_known_us = 0;
    int64_t t_prompt_from_us  = 0;
};

static kvarn_live_stage stage;

// A cell that readers may still hold is never freed; the number of slots, hence the cell, changes at no reload.
static std::vector<std::unique_ptr<kvarn_live_cell>> cells;
static std::atomic<const kvarn_live_cell *>          newest_cell;

static void on_ubatch(void *, const llama_context * ctx, uint32_t n_tokens, const int32_t * n_seq_id, llama_seq_id * const * seq_id) {
    if (ctx != stage.ctx_tgt) {
        return;
    }
    // a sequence of the target context is a slot; only a prompt has its progress told before the decode is through
    const int64_t t_now = ggml_time_us();
    for (uint32_t i = 0; i < n_tokens; ++i) {
        const size_t id = n_seq_id[i] > 0 ? (size_t) seq_id[i][0] : stage.slots.size();
        if (id >= stage.slots.size() || stage.slots[id].phase != KVARN_LIVE_PREFILL || stage.slots[id].t_start_us == 0) {
            continue;
        }
        kvarn_live_slot & slot = stage.slots[id];
        slot.n_processed++;
        slot.t_prefill_us = t_now - slot.t_start_us;
        stage.engine.n_prompt++;
        // a decode that failed may have been told more than it was credited with
        stage.engine.t_prompt_us = std::max(stage.engine.t_prompt_us, stage.t_prompt_known_us + t_now - stage.t_prompt_from_us);
    }
    kvarn_live_publish();
}

void kvarn_live_on_load(const llama_context * ctx_tgt, const llama_context * ctx_dft, size_t n_slots) {
    stage.ctx_tgt = ctx_tgt;
    stage.ctx_dft = ctx_dft;
    stage.words.resize(ENGINE_WORDS + n_slots*SLOT_WORDS);
    stage.slots.assign(n_slots, {});
    for (size_t i = 0; i < n_slots; ++i) {
        stage.slots[i].id      = (int64_t) i;
        stage.slots[i].id_task = -1;
    }
    stage.engine.is_sleeping = false;

    kvarn_live_memory_on_load(ctx_tgt, ctx_dft);

    if (cells.empty() || cells.back()->n_words() != stage.words.size()) {
        cells.push_back(std::make_unique<kvarn_live_cell>(stage.words.size()));
    }
    kvarn_live_publish();
    newest_cell.store(cells.back().get(), std::memory_order_release);

    kvarn_ubatch_listen(on_ubatch, nullptr);
}

void kvarn_live_on_unload() {
    kvarn_ubatch_listen(nullptr, nullptr);
    stage.ctx_tgt = nullptr;
    stage.ctx_dft = nullptr;
    kvarn_live_memory_on_unload();

    if (!cells.empty()) {
        stage.engine.is_sleeping = true;
        std::fill_n(stage.engine.n_cells_used, KVARN_LIVE_MAX_CACHES, 0);
        kvarn_live_publish();
    }
}

void kvarn_live_prompt_clock(int64_t t_known_us, int64_t t_from_us) {
    stage.t_prompt_known_us = t_known_us;
    stage.t_prompt_from_us  = t_from_us;
}

kvarn_live_engine & kvarn_live_staged_engine() {
    return stage.engine;
}

kvarn_live_slot & kvarn_live_staged_slot(size_t i) {
    return stage.slots[i];
}

static void refresh_graphs(kvarn_live_engine & engine) {
    kvarn_graph_stats stats;
    kvarn_graph_stats_get(&stats);
    engine.n_ubatches     = kvarn_ubatch_count();
    engine.n_graph_reused = stats.n_reused;
    std::copy_n(stats.n_rebuilt, KVARN_GRAPH_REASON_COUNT, engine.n_graph_built);
}

static void refresh_cells(kvarn_live_engine & engine) {
    uint32_t n_used[KVARN_LIVE_MAX_CACHES];
    size_t   n = 0;
    for (const llama_context * ctx : { stage.ctx_tgt, stage.ctx_dft }) {
        if (ctx) {
            n += kvarn_kv_cells_used(ctx, n_used + n, KVARN_LIVE_MAX_CACHES - n);
            n  = std::min(n, KVARN_LIVE_MAX_CACHES);
        }
    }
    std::copy_n(n_used, n, engine.n_cells_used);
}

void kvarn_live_publish() {
    if (cells.empty()) {
        return;
    }
    refresh_graphs(stage.engine);
    refresh_cells(stage.engine);
    stage.engine.t_published_ns = kvarn_live_now_ns();
    std::memcpy(stage.words.data(), &stage.engine, sizeof(stage.engine));
    std::memcpy(stage.words.data() + ENGINE_WORDS, stage.slots.data(), stage.slots.size()*sizeof(kvarn_live_slot));
    cells.back()->write(stage.words.data());
}

kvarn_live_activity::kvarn_live_activity(int id_slot, kvarn_live_phase phase) : slot((size_t) id_slot), phase_before(KVARN_LIVE_IDLE) {
    if (slot < stage.slots.size()) {
        phase_before = stage.slots[slot].phase;
        stage.slots[slot].phase = phase;
        kvarn_live_publish();
    }
}

kvarn_live_activity::~kvarn_live_activity() {
    if (slot < stage.slots.size()) {
        stage.slots[slot].phase = phase_before;
        kvarn_live_publish();
    }
}

//
// any thread
//

bool kvarn_live_read(kvarn_live_reading & reading) {
    const kvarn_live_cell * cell = newest_cell.load(std::memory_order_acquire);
    if (!cell) {
        return false;
    }
    std::vector<uint64_t> words(cell->n_words());
    reading.number = cell->read(words.data());
    if (reading.number == 0) {
        return false;
    }
    std::memcpy(&reading.engine, words.data(), sizeof(reading.engine));
    reading.slots.resize((words.size() - ENGINE_WORDS)/SLOT_WORDS);
    std::memcpy(reading.slots.data(), words.data() + ENGINE_WORDS, reading.slots.size()*sizeof(kvarn_live_slot));
    return true;
}
