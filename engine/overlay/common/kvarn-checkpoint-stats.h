#pragma once

// What the context checkpoints of this process cost and did. Written by the server's main thread, read by any.

#include <atomic>
#include <cstdint>

struct kvarn_checkpoint_totals {
    std::atomic<uint64_t> count        { 0 }; // held now, by slots and the prompt cache; shared ones once
    std::atomic<uint64_t> bytes        { 0 }; // host memory they take now
    std::atomic<uint64_t> budget_bytes { 0 }; // what they may take; 0: no checkpoints
    std::atomic<uint64_t> saved        { 0 }; // since the start
    std::atomic<uint64_t> restored     { 0 }; // ...
    std::atomic<uint64_t> evicted      { 0 }; // dropped to make room for others
    std::atomic<uint64_t> declined     { 0 }; // not taken: worth less than those that are there, or larger than the budget
};

kvarn_checkpoint_totals & kvarn_checkpoint_counters();

// the same as plain values, with what is pinned to move them
struct kvarn_checkpoint_stats {
    uint64_t count;
    uint64_t bytes;
    uint64_t budget_bytes;
    uint64_t staging_bytes;
    uint64_t saved;
    uint64_t restored;
    uint64_t evicted;
    uint64_t declined;
};

kvarn_checkpoint_stats kvarn_checkpoint_stats_get();
