#pragma once

// The memory part of GET /live: what was allocated where and for what, and what the devices have left.

#include "server-common.h"

#include <string>
#include <vector>

struct kvarn_live_cache {
    std::string context;   // "target" or "draft"
    std::string kind;      // "full", "window" or "recurrent"
    std::string type_k;    // empty for a recurrent state
    std::string type_v;
    uint64_t    k_bytes = 0;
    uint64_t    v_bytes = 0;
    uint64_t    n_cells = 0;
};

struct kvarn_live_buffer {
    std::string context;
    std::string name;      // of the buffer type
    std::string device;
    bool        is_host       = false;
    uint64_t    model_bytes   = 0;
    uint64_t    context_bytes = 0; // KV cells and recurrent state
    uint64_t    compute_bytes = 0;
};

struct kvarn_live_device {
    std::string name;
    std::string description;
    uint64_t    total_bytes = 0;
    uint64_t    free_bytes  = 0;
    bool        knows_free  = false; // a CPU backend calls all memory free; that is not told on
};

struct kvarn_live_memory {
    std::vector<kvarn_live_cache>  caches;  // target first; the order of kvarn_live_engine::n_cells_used
    std::vector<kvarn_live_buffer> buffers;
    std::vector<kvarn_live_device> devices;
    int32_t                        kv_pad = -1; // of the target, see kvarn-kv-pad.h; -1 without an attention cache
};

// main thread
void kvarn_live_memory_on_load(const llama_context * ctx_tgt, const llama_context * ctx_dft);
void kvarn_live_memory_on_unload();

// any thread; a copy. Free bytes of devices are at most a second older than the reading before this one.
kvarn_live_memory kvarn_live_memory_read();

// ends the thread that asks the devices; before the backends are freed
void kvarn_live_memory_stop();
