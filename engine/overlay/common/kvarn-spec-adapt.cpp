#include "kvarn-spec-adapt.h"

#include "kvarn-spec-stats.h"
#include "../src/kvarn-graph-arenas.h"
#include "ggml.h"

#include <algorithm>

// a text copier guesses whole phrases, a draft model a few tokens
static constexpr int START_COPIER = 8;
static constexpr int START_MODEL  = 3;

// Their buffers are made after the memory has been fitted, so they are few and small. Longer drafts share the context's own
// graph: their steps take long enough for building one.
static constexpr int LONGEST_WITH_GRAPH = 16;

// a draft of d tokens is verified together with the token before it
static void keep_graphs(const std::vector<llama_context *> & ctxs, const std::vector<int> & depths) {
    std::vector<int32_t> lengths;
    for (const int depth : depths) {
        if (depth <= LONGEST_WITH_GRAPH) {
            lengths.push_back(depth + 1);
        }
    }
    for (auto * ctx : ctxs) {
        if (ctx) {
            kvarn_graph_arenas_enable(ctx, lengths.data(), (int32_t) lengths.size());
        }
    }
}

// the base's list of kinds begins with the `none` it started from
static std::string without_none(const std::string & kinds) {
    return kinds.compare(0, 5, "none,") == 0 ? kinds.substr(5) : kinds;
}

void kvarn_spec_adapt::init(const std::string & kind, bool adaptive, int n_max, int n_min, int n_seq, const std::vector<llama_context *> & ctxs) {
    slots.clear();
    this->adaptive = adaptive && n_max > 0;
    turn_end       = true;
    kvarn_spec_stats_begin(n_max > 0 ? without_none(kind) : "", this->adaptive, n_max);
    if (n_max <= 0) {
        return;
    }
    const bool has_model  = kind.find("draft-") != std::string::npos;
    const bool has_copier = kind.find("ngram-") != std::string::npos; // hands on drafts of any length
    for (int i = 0; i < n_seq; ++i) {
        slots.push_back({ kvarn_spec_depth(n_max, has_model ? START_MODEL : START_COPIER, has_model && !has_copier ? n_min : 1) });
    }
    if (this->adaptive) {
        keep_graphs(ctxs, slots[0].depth.levels());
    }
}

void kvarn_spec_adapt::begin(llama_seq_id seq_id) {
    if (!slots.empty()) {
        slots[seq_id].depth.new_text();
        slots[seq_id].t_begin = 0;
    }
}

int kvarn_spec_adapt::limit(llama_seq_id seq_id, int n_room) {
    if (slots.empty()) {
        return n_room;
    }
    if (turn_end) {
        turn_end = false;
        n_turn   = 0;
    }
    ++n_turn;

    auto & slot = slots[seq_id];
    slot.t_begin   = ggml_time_us();
    slot.n_drafted = 0;
    if (!adaptive) {
        kvarn_spec_stats_depth(std::max(n_room, 0));
        return n_room;
    }
    kvarn_spec_stats_depth(slot.depth.depth());
    return slot.depth.round(std::min(n_room, slot.depth.depth()));
}

void kvarn_spec_adapt::drafted(llama_seq_id seq_id, std::vector<llama_token> & draft) {
    if (slots.empty()) {
        return;
    }
    if (adaptive) {
        draft.resize(slots[seq_id].depth.round((int) draft.size()));
    }
    slots[seq_id].n_drafted = (int) draft.size();
    n_turn += (int) draft.size();
}

void kvarn_spec_adapt::finished(llama_seq_id seq_id, int n_accepted, int n_batch, bool again) {
    if (slots.empty() || slots[seq_id].t_begin == 0) {
        return; // the token that ends a prompt
    }
    auto & slot = slots[seq_id];

    const bool    timed = again || n_batch == n_turn;
    const int64_t us    = timed ? std::max<int64_t>(1, ggml_time_us() - slot.t_begin) : 0;

    kvarn_spec_stats_step(slot.n_drafted, n_accepted, us);
    if (adaptive) {
        slot.depth.step(slot.n_drafted, n_accepted, us/1000.0);
    }
    slot.t_begin = 0;
    turn_end     = true;
}
