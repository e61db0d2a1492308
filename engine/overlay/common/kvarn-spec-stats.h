#pragma once

#include <cstdint>
#include <string>
#include <vector>

// What speculation did, over all slots, since the process began. Counters never fall.
struct kvarn_spec_stats {
    std::string kind;             // as --spec-type, comma-separated; empty: no speculation
    bool        adaptive = false;
    int         n_max    = 0;     // longest draft the drafters can make
    int         depth    = 0;     // tokens to draft in the step begun last
    uint64_t    n_drafts   = 0;   // verified drafts
    uint64_t    n_drafted  = 0;   // tokens in them
    uint64_t    n_accepted = 0;
    std::vector<uint64_t> tried;    // [n_max] by position: drafts whose tokens before it were all accepted
    std::vector<uint64_t> accepted; // [n_max] by position
    std::vector<uint64_t> steps;    // [n_max + 1] by draft length: timed decode steps without prompt tokens
    std::vector<uint64_t> step_us;  // [n_max + 1] by draft length: their time, draft to sample
};

// Each number is exact by itself; any thread, any time. The only lock is one a model load takes.
kvarn_spec_stats kvarn_spec_stats_get();

// The writers below are the server's main thread.

void kvarn_spec_stats_begin(const std::string & kind, bool adaptive, int n_max); // a model has been loaded
void kvarn_spec_stats_depth(int depth);
void kvarn_spec_stats_step (int n_drafted, int n_accepted, int64_t us);          // us <= 0: not timed
