#pragma once

// What the engine is doing right now: GET /live, GET /live/stream and part of GET /metrics (engine/protocol/live.md).
//
// The thread that computes keeps one staged state, changes it in place and publishes it at the turns of its loop, before
// and after each decode and between the ubatches of a long one. HTTP threads read the newest published state: no task is
// posted, no lock is taken and nothing waits for a decode. Publishing costs one copy of a few hundred words.

#include "llama.h"

#include "../../src/kvarn-graph-stats.h"

#include <cstdint>
#include <vector>

enum kvarn_live_phase : uint32_t {
    KVARN_LIVE_IDLE,
    KVARN_LIVE_WAIT,               // has a request, waits for another slot to read the prompt they share
    KVARN_LIVE_PREFILL,
    KVARN_LIVE_DECODE,
    KVARN_LIVE_CHECKPOINT_SAVE,
    KVARN_LIVE_CHECKPOINT_RESTORE,
    KVARN_LIVE_CACHE_SAVE,         // the slot's state goes into the prompt cache
    KVARN_LIVE_CACHE_LOAD,         // ... or comes from it
    KVARN_LIVE_SLOT_SAVE,          // ... goes into a file
    KVARN_LIVE_SLOT_RESTORE,
    KVARN_LIVE_PHASE_COUNT,
};

// lowercase words joined by underscores
const char * kvarn_live_phase_name(uint32_t phase);

// Counts are tokens, times microseconds. Plain words only: the structs are copied as such.
struct kvarn_live_slot {
    int64_t  id;
    int64_t  id_task;       // of the present request, else of the last one; -1 before the first
    uint64_t phase;
    uint64_t n_ctx;
    uint64_t n_held;        // tokens in the cache, also of a finished conversation
    uint64_t n_prompt;      // of the present request: the whole prompt
    uint64_t n_cached;      // ... of which taken from the cache
    uint64_t n_processed;   // ... of which computed so far
    uint64_t n_decoded;
    uint64_t n_drafted;
    uint64_t n_draft_accepted;
    int64_t  t_start_us;    // ggml_time_us() when the slot took the request, 0 without one
    int64_t  t_prefill_us;
    int64_t  t_decode_us;   // from the first generated token to the last
    uint64_t n_checkpoints;
    uint64_t checkpoint_bytes;
};

static constexpr size_t KVARN_LIVE_MAX_CACHES = 8;

struct kvarn_live_engine {
    uint64_t is_sleeping;
    int64_t  t_published_ns;   // since the engine's start, monotonic
    uint64_t n_waiting;        // requests that found no free slot

    // totals since the start, counted as they happen
    uint64_t n_prompt;         // computed prompt tokens
    uint64_t n_cached;
    uint64_t n_generated;
    uint64_t n_drafted;
    uint64_t n_draft_accepted;
    int64_t  t_prompt_us;
    int64_t  t_generated_us;   // summed over slots that decode side by side

    // a step is one decode call with what belongs to it
    uint64_t n_steps;
    int64_t  t_decode_us;
    int64_t  t_sampling_us;
    int64_t  t_other_us;       // building the batch, checkpoints, drafts, answering
    uint64_t n_last_tokens;    // of the last step
    int64_t  t_last_decode_us;
    int64_t  t_last_sampling_us;
    int64_t  t_last_other_us;

    uint64_t n_ubatches;
    uint64_t n_graph_reused;
    uint64_t n_graph_built[KVARN_GRAPH_REASON_COUNT];

    uint64_t n_cells_used[KVARN_LIVE_MAX_CACHES]; // in the order of kvarn_live_memory::caches

    uint64_t has_prompt_cache;
    uint64_t n_cache_entries;
    uint64_t cache_bytes;
    uint64_t cache_limit_bytes; // 0: no limit
    uint64_t n_cache_checkpoints;
    uint64_t cache_checkpoint_bytes;
};

//
// the thread that computes
//

// contexts exist from here on (ctx_dft may be NULL) ...
void kvarn_live_on_load(const llama_context * ctx_tgt, const llama_context * ctx_dft, size_t n_slots);

// ... to here: the engine sleeps or ends
void kvarn_live_on_unload();

// Time spent on prompts is known at the end of a decode; between its ubatches it is t_known_us + the time since t_from_us.
void kvarn_live_prompt_clock(int64_t t_known_us, int64_t t_from_us);

kvarn_live_engine & kvarn_live_staged_engine();
kvarn_live_slot   & kvarn_live_staged_slot(size_t i);

// refreshes what can be read from the contexts and makes the staged state visible
void kvarn_live_publish();

// A slot is busy with something else than its request's phase for the time this object lives.
class kvarn_live_activity {
public:
    kvarn_live_activity(int id_slot, kvarn_live_phase phase);
    ~kvarn_live_activity();

    kvarn_live_activity(const kvarn_live_activity &) = delete;
    kvarn_live_activity & operator=(const kvarn_live_activity &) = delete;

private:
    size_t   slot;
    uint64_t phase_before;
};

//
// any thread
//

struct kvarn_live_reading {
    uint64_t                     number; // of the published state: 1, 2, 3, ...
    kvarn_live_engine            engine;
    std::vector<kvarn_live_slot> slots;
};

// false while nothing has been published, as in a router
bool kvarn_live_read(kvarn_live_reading & reading);

// nanoseconds since the engine's start, monotonic; and the wall clock at that moment
int64_t kvarn_live_now_ns();
int64_t kvarn_live_start_unix_ms();
