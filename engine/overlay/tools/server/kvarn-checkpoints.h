#pragma once

// Context checkpoints within one budget of bytes, over all slots and the prompt cache. Main thread only.

#include "server-task.h"

#include <cstdint>
#include <exception>
#include <vector>

struct common_speculative;

// Read --ctx-checkpoints-mib, once per loaded model. A budget of 0 turns checkpoints off.
void kvarn_checkpoints_begin(common_params & params);

// The model is about to be unloaded: give back what was pinned for its devices, while they are there.
void kvarn_checkpoints_end();

// A draft context whose cache can be cut anywhere and is never overwritten needs no copy: cutting restores it.
bool kvarn_draft_needs_state(const llama_context * ctx_dft, common_context_seq_rm_type seq_rm_type);

struct kvarn_checkpoint_holder {
    server_prompt * prompt;
    int64_t         n_tokens;  // where the prompt ends, or will end once its request is prefilled
    int64_t         last_used; // in any unit; higher is later
};

// Drop what is worth less than a checkpoint of so many bytes at `n_tokens` in `into`. False: do not make it.
bool kvarn_checkpoints_make_room(std::vector<kvarn_checkpoint_holder> holders, const server_prompt & into, int64_t n_tokens, size_t bytes);

// count a checkpoint that was made
void kvarn_checkpoints_on_made(common_prompt_checkpoint & made);

// bytes a checkpoint of this sequence would take now
size_t kvarn_checkpoint_bytes(llama_context * ctx_tgt, llama_context * ctx_dft, common_speculative * spec, llama_seq_id seq_id, bool with_draft);

// the same for the server's slots: a busy one is used now, a cached prompt was used before any slot
template <typename Slots, typename Slot>
bool kvarn_checkpoints_admit(Slots & slots, server_prompt_cache * cache, Slot & slot, int64_t n_tokens, bool with_draft) {
    std::vector<kvarn_checkpoint_holder> holders;
    int64_t age = INT64_MIN;
    if (cache) {
        for (auto & state : cache->states) {
            holders.push_back({ &state.prompt, state.prompt.n_tokens(), age++ });
        }
    }
    for (auto & other : slots) {
        const bool busy = other.is_processing() && other.task;
        holders.push_back({ &other.prompt, busy ? other.task->n_tokens() : other.prompt.n_tokens(), busy ? INT64_MAX : other.t_last_used });
    }
    size_t bytes = 0;
    try {
        bytes = kvarn_checkpoint_bytes(slot.ctx_tgt, slot.ctx_dft, slot.spec, slot.id, with_draft);
    } catch (const std::exception &) {
        return false; // what cannot be measured cannot be kept either
    }
    return kvarn_checkpoints_make_room(std::move(holders), slot.prompt, n_tokens, bytes);
}
