#pragma once

// Which checkpoints are worth their memory. Pure: no clock, no engine, no allocation beyond its own lists.
//
// A checkpoint at position p saves, when the next request of its prompt parts from it anywhere between p and the next
// checkpoint, the tokens between p and the checkpoint before it. Where requests part is not known; that the distance
// from the end is as likely between 100 and 200 tokens as between 1,000 and 2,000 is a fair guess (the last question
// is edited, sometimes an earlier one), and as often as not the request continues at the end. The value of a
// checkpoint is the number of tokens it is expected to save. Dropping the least valuable one again and again thins the
// checkpoints out towards the start of a prompt and leaves one near its end.

#include <cstddef>
#include <cstdint>
#include <vector>

struct kvarn_checkpoint_view {
    const void * key;      // equal for checkpoints that share their bytes; NULL for the one that is to be made
    int64_t      n_tokens; // position
    size_t       bytes;
};

struct kvarn_prompt_view {
    int64_t n_tokens;                               // where the prompt ends
    double  weight;                                 // how likely the next request is to be one of this prompt, > 0
    std::vector<kvarn_checkpoint_view> checkpoints; // in any order; sorted by position in place
};

struct kvarn_eviction_plan {
    bool                      admit = false; // there is room for the new one, once `evict` is dropped
    std::vector<const void *> evict;
};

// tokens the checkpoint at `i` is expected to save. Checkpoints sorted by position
double kvarn_checkpoint_value(const kvarn_prompt_view & prompt, size_t i);

// Make room for the one checkpoint with key NULL among the prompts.
//   used:   bytes of all checkpoints now, without the new one
//   budget: bytes they may take
// Without room, or when the new one is worth least of all, nothing is dropped.
kvarn_eviction_plan kvarn_plan_eviction(std::vector<kvarn_prompt_view> prompts, size_t used, size_t budget);
