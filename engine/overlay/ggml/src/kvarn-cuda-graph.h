#pragma once

// Counts what becomes of the graphs a CUDA (HIP, MUSA) backend computes: replayed, captured, or run eagerly, and why.
//
// The backend reports events; the counting is plain C++ in ggml-base, so that it is tested where there is no GPU.
// Totals are kept by device and outlive the backend that counted them: a reader may treat all but n_live as counters
// that never fall. Reading takes no lock, calls no driver and may happen on any thread at any time.
//
//   computed graphs = n_replays + n_captures + sum of n_eager
//   graph launches  = n_replays + n_captures
//   n_updates + n_update_failures = n_captures    (a capture is always followed by an update of its executable)
//
// A change of shape costs one eager run and one capture: the backend runs a graph eagerly until it sees it unchanged.

#include "ggml.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KVARN_CUDA_GRAPH_STATS_PROC    "kvarn_cuda_graph_stats_get" // for ggml_backend_reg_get_proc_address()
#define KVARN_CUDA_GRAPH_STATS_VERSION 1

// why a graph was run eagerly, the first that applies
enum kvarn_cuda_graph_eager {
    KVARN_CUDA_GRAPH_EAGER_OFF,          // GGML_CUDA_DISABLE_GRAPHS, or a build without CUDA graphs
    KVARN_CUDA_GRAPH_EAGER_OLD_GPU,      // older than Volta
    KVARN_CUDA_GRAPH_EAGER_INCOMPATIBLE, // an op has to wait for the stream
    KVARN_CUDA_GRAPH_EAGER_FIRST,        // not seen before, or forgotten since
    KVARN_CUDA_GRAPH_EAGER_UNSETTLED,    // changed again before it was captured
    KVARN_CUDA_GRAPH_EAGER_CHANGED,      // does not fit the captured one: a warm-up reset
    KVARN_CUDA_GRAPH_EAGER_COUNT,
};

struct kvarn_cuda_graph_stats {
    uint32_t version;
    uint32_t size; // bytes the caller has room for, sizeof of this struct; new members come last

    uint64_t n_replays;
    uint64_t n_captures;
    uint64_t n_eager[KVARN_CUDA_GRAPH_EAGER_COUNT];
    uint64_t n_instantiations;
    uint64_t n_updates;
    uint64_t n_update_failures; // the executable was made anew, counted as an instantiation too
    uint64_t n_evictions;       // unused for 10 s
    uint64_t n_live;            // executables held now
    uint64_t t_capture_us;      // time of the host
    uint64_t t_instantiate_us;
    uint64_t t_update_us;
};

// lowercase words joined by underscores; NULL when out of range
GGML_API const char * kvarn_cuda_graph_eager_name(int reason);

// the totals of a device, by its index in the backend's registry; false when there is no such device or no room
typedef bool (*kvarn_cuda_graph_stats_get_t)(int device, struct kvarn_cuda_graph_stats * stats);
GGML_API bool kvarn_cuda_graph_stats_get(int device, struct kvarn_cuda_graph_stats * stats);

#ifdef __cplusplus
}

// what the backend knew when it decided about a graph
struct kvarn_cuda_graph_step {
    bool is_on         = false;
    bool is_old_gpu    = false;
    bool is_known      = false; // its properties are on record
    bool was_warm      = false; // a captured graph was there to be replayed
    bool is_compatible = false;
};

// One for each backend, used by one thread at a time. Times are given by the caller, in microseconds from any origin.
struct kvarn_cuda_graph_meter {
    int      device;
    int64_t  t_last_us = 0; // end of the last timed event
    uint64_t n_live    = 0;

    explicit kvarn_cuda_graph_meter(int device) : device(device) {}
    ~kvarn_cuda_graph_meter();
};

// the decision about one graph; for a capture: before it begins
GGML_API void kvarn_cuda_graph_on_compute(kvarn_cuda_graph_meter & meter, const kvarn_cuda_graph_step & step, bool is_graph, bool is_capture, int64_t now_us);

// the events that follow a capture, each timed from the one before
GGML_API void kvarn_cuda_graph_on_captured    (kvarn_cuda_graph_meter & meter, int64_t now_us);
GGML_API void kvarn_cuda_graph_on_instantiated(kvarn_cuda_graph_meter & meter, int64_t now_us);
GGML_API void kvarn_cuda_graph_on_updated     (kvarn_cuda_graph_meter & meter, bool is_ok, int64_t now_us);

GGML_API void kvarn_cuda_graph_on_evicted(kvarn_cuda_graph_meter & meter, bool was_live);
GGML_API void kvarn_cuda_graph_on_freed  (kvarn_cuda_graph_meter & meter);

inline kvarn_cuda_graph_meter::~kvarn_cuda_graph_meter() {
    kvarn_cuda_graph_on_freed(*this);
}
#endif
