#include "kvarn-cuda-graph.h"

#include <algorithm>
#include <atomic>
#include <cstring>

static constexpr int MAX_DEVICES = 64; // no fewer than GGML_CUDA_MAX_DEVICES

namespace {
struct totals {
    std::atomic<uint64_t> n_replays;
    std::atomic<uint64_t> n_captures;
    std::atomic<uint64_t> n_eager[KVARN_CUDA_GRAPH_EAGER_COUNT];
    std::atomic<uint64_t> n_instantiations;
    std::atomic<uint64_t> n_updates;
    std::atomic<uint64_t> n_update_failures;
    std::atomic<uint64_t> n_evictions;
    std::atomic<uint64_t> n_live;
    std::atomic<uint64_t> t_capture_us;
    std::atomic<uint64_t> t_instantiate_us;
    std::atomic<uint64_t> t_update_us;
};
}

static totals devices[MAX_DEVICES];

static void add(std::atomic<uint64_t> & counter, uint64_t n = 1) {
    counter.fetch_add(n, std::memory_order_relaxed);
}

static uint64_t get(const std::atomic<uint64_t> & counter) {
    return counter.load(std::memory_order_relaxed);
}

static uint64_t lap(kvarn_cuda_graph_meter & meter, int64_t now_us) {
    const int64_t t_us = now_us - meter.t_last_us;
    meter.t_last_us = now_us;
    return t_us > 0 ? t_us : 0;
}

static kvarn_cuda_graph_eager why_eager(const kvarn_cuda_graph_step & step) {
    return step.is_old_gpu     ? KVARN_CUDA_GRAPH_EAGER_OLD_GPU :
           !step.is_on         ? KVARN_CUDA_GRAPH_EAGER_OFF :
           !step.is_compatible ? KVARN_CUDA_GRAPH_EAGER_INCOMPATIBLE :
           !step.is_known      ? KVARN_CUDA_GRAPH_EAGER_FIRST :
           !step.was_warm      ? KVARN_CUDA_GRAPH_EAGER_UNSETTLED : KVARN_CUDA_GRAPH_EAGER_CHANGED;
}

const char * kvarn_cuda_graph_eager_name(int reason) {
    switch (reason) {
        case KVARN_CUDA_GRAPH_EAGER_OFF:          return "off";
        case KVARN_CUDA_GRAPH_EAGER_OLD_GPU:      return "old_gpu";
        case KVARN_CUDA_GRAPH_EAGER_INCOMPATIBLE: return "incompatible";
        case KVARN_CUDA_GRAPH_EAGER_FIRST:        return "first";
        case KVARN_CUDA_GRAPH_EAGER_UNSETTLED:    return "unsettled";
        case KVARN_CUDA_GRAPH_EAGER_CHANGED:      return "changed";
        default:                                  return nullptr;
    }
}

bool kvarn_cuda_graph_stats_get(int device, kvarn_cuda_graph_stats * stats) {
    // a later version has at least the room of this one, an earlier one less: it gets what it knows
    if (device < 0 || device >= MAX_DEVICES || stats->size < 2*sizeof(uint32_t)) {
        return false;
    }

    const totals & t = devices[device];

    kvarn_cuda_graph_stats all = {};
    all.version = KVARN_CUDA_GRAPH_STATS_VERSION;
    all.size    = std::min<uint32_t>(stats->size, sizeof(all));

    all.n_replays  = get(t.n_replays);
    all.n_captures = get(t.n_captures);
    for (int i = 0; i < KVARN_CUDA_GRAPH_EAGER_COUNT; ++i) {
        all.n_eager[i] = get(t.n_eager[i]);
    }
    all.n_instantiations  = get(t.n_instantiations);
    all.n_updates         = get(t.n_updates);
    all.n_update_failures = get(t.n_update_failures);
    all.n_evictions       = get(t.n_evictions);
    all.n_live            = get(t.n_live);
    all.t_capture_us      = get(t.t_capture_us);
    all.t_instantiate_us  = get(t.t_instantiate_us);
    all.t_update_us       = get(t.t_update_us);

    memcpy(stats, &all, all.size);
    return true;
}

void kvarn_cuda_graph_on_compute(kvarn_cuda_graph_meter & meter, const kvarn_cuda_graph_step & step, bool is_graph, bool is_capture, int64_t now_us) {
    totals & t = devices[meter.device];

    if (!is_graph) {
        add(t.n_eager[why_eager(step)]);
    } else if (!is_capture) {
        add(t.n_replays);
    } else {
        add(t.n_captures);
        meter.t_last_us = now_us;
    }
}

void kvarn_cuda_graph_on_captured(kvarn_cuda_graph_meter & meter, int64_t now_us) {
    add(devices[meter.device].t_capture_us, lap(meter, now_us));
}

void kvarn_cuda_graph_on_instantiated(kvarn_cuda_graph_meter & meter, int64_t now_us) {
    totals & t = devices[meter.device];

    add(t.n_instantiations);
    add(t.t_instantiate_us, lap(meter, now_us));
    add(t.n_live);
    ++meter.n_live;
}

static void drop_live(kvarn_cuda_graph_meter & meter, uint64_t n) {
    devices[meter.device].n_live.fetch_sub(n, std::memory_order_relaxed);
    meter.n_live -= n;
}

void kvarn_cuda_graph_on_updated(kvarn_cuda_graph_meter & meter, bool is_ok, int64_t now_us) {
    totals & t = devices[meter.device];

    add(is_ok ? t.n_updates : t.n_update_failures);
    add(t.t_update_us, lap(meter, now_us));
    if (!is_ok) {
        drop_live(meter, 1); // the executable is destroyed and made anew
    }
}

void kvarn_cuda_graph_on_evicted(kvarn_cuda_graph_meter & meter, bool was_live) {
    add(devices[meter.device].n_evictions);
    drop_live(meter, was_live ? 1 : 0);
}

void kvarn_cuda_graph_on_freed(kvarn_cuda_graph_meter & meter) {
    drop_live(meter, meter.n_live);
}
