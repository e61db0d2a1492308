#pragma once

// Included by server-context.cpp alone, once server_slot is known: what a turn of its loop puts into the live state.

#include "kvarn-live.h"

#include <algorithm>

// running totals of update_slots(), in microseconds
struct kvarn_live_steps {
    int64_t t_pre_decode;
    int64_t t_decode;
    int64_t t_post_decode; // sampling included
    int64_t t_sampling;
    int64_t n_decode;
};

struct kvarn_live_queue {
    uint64_t n_prompt;
    int64_t  t_prompt_start;
};

static inline kvarn_live_phase kvarn_live_phase_of(slot_state state) {
    switch (state) {
        case SLOT_STATE_IDLE:              return KVARN_LIVE_IDLE;
        case SLOT_STATE_WAIT_OTHER:        return KVARN_LIVE_WAIT;
        case SLOT_STATE_STARTED:
        case SLOT_STATE_PROCESSING_PROMPT:
        case SLOT_STATE_DONE_PROMPT:       return KVARN_LIVE_PREFILL;
        case SLOT_STATE_GENERATING:        return KVARN_LIVE_DECODE;
    }
    return KVARN_LIVE_IDLE;
}

template <typename Checkpoints>
static void kvarn_live_add_checkpoints(const Checkpoints & checkpoints, uint64_t & n, uint64_t & bytes) {
    n += checkpoints.size();
    for (const auto & checkpoint : checkpoints) {
        bytes += checkpoint.size();
    }
}

static void kvarn_live_collect_slot(const server_slot & from, kvarn_live_slot & to) {
    const auto & task = from.task ? from.task : from.task_prev;

    to.id_task          = task ? task->id : -1;
    to.phase            = kvarn_live_phase_of(from.state);
    to.n_ctx            = from.n_ctx;
    to.n_held           = from.prompt.n_tokens();
    to.n_prompt         = from.task ? from.task->n_tokens() : 0;
    to.n_cached         = from.stats.n_prompt_cached;
    to.n_processed      = from.stats.n_prompt_processed;
    to.n_decoded        = from.stats.n_gen;
    to.n_drafted        = from.stats.n_draft_tokens;
    to.n_draft_accepted = from.stats.n_draft_accepted;
    to.t_start_us       = from.stats.t_start;
    to.t_prefill_us     = from.stats.t_prompt_last ? from.stats.t_prompt_last - from.stats.t_start : 0;
    to.t_decode_us      = from.stats.t_gen_us();
    to.n_checkpoints    = 0;
    to.checkpoint_bytes = 0;
    kvarn_live_add_checkpoints(from.prompt.checkpoints, to.n_checkpoints, to.checkpoint_bytes);
}

// upstream adds a request's tokens when its slot is released; here they count as they come
static void kvarn_live_collect_totals(const std::vector<server_slot> & slots, const server_metrics & metrics, kvarn_live_engine & to) {
    to.n_cached         = metrics.n_prompt_cached;
    to.n_generated      = metrics.predict.count;
    to.t_generated_us   = metrics.predict.time;
    to.n_drafted        = metrics.n_draft_tokens;
    to.n_draft_accepted = metrics.n_draft_accepted;
    for (const auto & slot : slots) {
        to.n_generated      += slot.stats.n_gen;
        to.t_generated_us   += slot.stats.t_gen_us();
        to.n_drafted        += slot.stats.n_draft_tokens;
        to.n_draft_accepted += slot.stats.n_draft_accepted;
    }
}

// at the turns of the loop only: walks the cache's entries
static inline void kvarn_live_collect_queue(const server_prompt_cache * cache, size_t n_waiting) {
    kvarn_live_engine & to = kvarn_live_staged_engine();

    to.n_waiting        = n_waiting;
    to.has_prompt_cache = cache != nullptr;
    if (!cache) {
        return;
    }
    to.n_cache_entries        = cache->states.size();
    to.cache_bytes            = cache->size();
    to.cache_limit_bytes      = cache->limit_size;
    to.n_cache_checkpoints    = 0;
    to.cache_checkpoint_bytes = 0;
    for (const auto & state : cache->states) {
        kvarn_live_add_checkpoints(state.prompt.checkpoints, to.n_cache_checkpoints, to.cache_checkpoint_bytes);
    }
}

// `n_step_tokens`: tokens of the step that has just ended, 0 while none has
static void kvarn_live_collect_steps(const kvarn_live_steps & steps, uint64_t n_step_tokens, kvarn_live_engine & to) {
    const int64_t t_other = steps.t_pre_decode + steps.t_post_decode - steps.t_sampling;
    if (n_step_tokens > 0) {
        to.n_last_tokens      = n_step_tokens;
        to.t_last_decode_us   = steps.t_decode   - to.t_decode_us;
        to.t_last_sampling_us = steps.t_sampling - to.t_sampling_us;
        to.t_last_other_us    = t_other          - to.t_other_us;
        to.n_steps            = steps.n_decode;
        to.t_decode_us        = steps.t_decode;
        to.t_sampling_us      = steps.t_sampling;
        to.t_other_us         = t_other;
    }
}

// what a publication is made of; the contexts' own figures are added by kvarn_live_publish()
//   queue: prompt tokens computed since t_prompt_start, whose time upstream adds once the context has been synchronized
static void kvarn_live_collect(const std::vector<server_slot> & slots, const server_metrics & metrics, const kvarn_live_queue & queue,
                               const kvarn_live_steps & steps, uint64_t n_step_tokens) {
    kvarn_live_engine & engine = kvarn_live_staged_engine();

    const int64_t t_now  = ggml_time_us();
    const int64_t t_from = queue.n_prompt > 0 ? queue.t_prompt_start : t_now;

    // of a decode that failed, its ubatches have been told and upstream counts nothing; a total never falls
    engine.n_prompt    = std::max<uint64_t>(engine.n_prompt,    metrics.prompt.count + queue.n_prompt);
    engine.t_prompt_us = std::max<int64_t> (engine.t_prompt_us, metrics.prompt.time  + t_now - t_from);
    kvarn_live_prompt_clock(metrics.prompt.time, t_from);
    kvarn_live_collect_totals(slots, metrics, engine);
    kvarn_live_collect_steps(steps, n_step_tokens, engine);
    for (const auto & slot : slots) {
        kvarn_live_collect_slot(slot, kvarn_live_staged_slot(slot.id));
    }
    kvarn_live_publish();
}
