#include "kvarn-spec-stats.h"

#include <algorithm>
#include <atomic>
#include <mutex>

// longer drafts are counted with these
static constexpr int N = 64;

static std::atomic<uint64_t> n_drafts;
static std::atomic<uint64_t> n_drafted_all;
static std::atomic<uint64_t> n_accepted_all;
static std::atomic<uint64_t> tried[N];
static std::atomic<uint64_t> accepted[N];
static std::atomic<uint64_t> steps[N + 1];
static std::atomic<uint64_t> step_us[N + 1];
static std::atomic<int>      depth_now;

// changes only when a model is loaded
static std::mutex  mutex_kind;
static std::string kind_now;
static bool        adaptive_now;
static int         n_max_now;

static void add(std::atomic<uint64_t> & counter, uint64_t n) {
    counter.fetch_add(n, std::memory_order_relaxed);
}

static std::vector<uint64_t> copy(const std::atomic<uint64_t> * counters, int n) {
    std::vector<uint64_t> res(n);
    for (int i = 0; i < n; ++i) {
        res[i] = counters[i].load(std::memory_order_relaxed);
    }
    return res;
}

void kvarn_spec_stats_begin(const std::string & kind, bool adaptive, int n_max) {
    const std::lock_guard<std::mutex> lock(mutex_kind);
    kind_now     = kind;
    adaptive_now = adaptive;
    n_max_now    = std::min(n_max, N);
    depth_now.store(0, std::memory_order_relaxed);
}

void kvarn_spec_stats_depth(int depth) {
    depth_now.store(depth, std::memory_order_relaxed);
}

void kvarn_spec_stats_step(int n_drafted, int n_accepted, int64_t us) {
    if (n_drafted > 0) {
        add(n_drafts,       1);
        add(n_drafted_all,  n_drafted);
        add(n_accepted_all, n_accepted);
    }
    for (int i = 0; i < std::min(n_drafted, N) && i <= n_accepted; ++i) {
        add(tried[i], 1);
        if (i < n_accepted) {
            add(accepted[i], 1);
        }
    }
    if (us > 0) {
        const int length = std::min(n_drafted, N);
        add(steps[length],   1);
        add(step_us[length], us);
    }
}

kvarn_spec_stats kvarn_spec_stats_get() {
    kvarn_spec_stats res;
    {
        const std::lock_guard<std::mutex> lock(mutex_kind);
        res.kind     = kind_now;
        res.adaptive = adaptive_now;
        res.n_max    = n_max_now;
    }
    res.depth      = depth_now.load(std::memory_order_relaxed);
    res.n_drafts   = n_drafts.load(std::memory_order_relaxed);
    res.n_drafted  = n_drafted_all.load(std::memory_order_relaxed);
    res.n_accepted = n_accepted_all.load(std::memory_order_relaxed);
    res.tried      = copy(tried,    res.n_max);
    res.accepted   = copy(accepted, res.n_max);
    res.steps      = copy(steps,    res.n_max + 1);
    res.step_us    = copy(step_us,  res.n_max + 1);
    return res;
}
