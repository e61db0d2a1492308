#pragma once

#include "kvarn-spec-depth.h"
#include "llama.h"

#include <cstdint>
#include <string>
#include <vector>

// Stands between the server's slots and kvarn_spec_depth: times the steps, limits and cuts the drafts, keeps the
// counters. The server's main thread alone uses it. With `adaptive` off it only counts.
//
// One decode step of a slot: limit(), perhaps drafted(), then finished(). A step that is undone and decoded again
// (its memory cannot be cut) is one step: it began with the first limit() and ends with the one finished().
class kvarn_spec_adapt {
public:
    //   kind:  as --spec-type
    //   n_max: longest draft of the initialized drafters; 0: no speculation, nothing is done
    //   n_min: shortest one a draft model hands on
    //   ctxs:  target and draft; adaptive, they keep graphs for the first depths (../src/kvarn-graph-arenas.h); NULL is passed over
    void init(const std::string & kind, bool adaptive, int n_max, int n_min, int n_seq, const std::vector<llama_context *> & ctxs);

    // a request starts to generate
    void begin(llama_seq_id seq_id);

    // returns how many tokens to draft, at most n_room
    int limit(llama_seq_id seq_id, int n_room);

    // cuts the draft to a length with few other shapes beside it
    void drafted(llama_seq_id seq_id, std::vector<llama_token> & draft);

    //   n_accepted: of the drafted tokens
    //   n_batch:    tokens decoded in the same call, to know whether a prompt was among them
    //   again:      the draft was decoded a second time, cut to what had been accepted
    void finished(llama_seq_id seq_id, int n_accepted, int n_batch, bool again);

private:
    struct slot {
        kvarn_spec_depth depth;
        int64_t          t_begin   = 0; // us; 0: no step under way
        int              n_drafted = 0;
    };

    bool adaptive = false;
    int  n_turn   = 0;     // tokens of this turn's steps
    bool turn_end = true;

    std::vector<slot> slots;
};
