#include "kvarn-checkpoint-policy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

// tokens; edits closer to the end than this are one and the same place
static const double NEAR_THE_END = 64.0;

// the share of requests, up to a common factor, that part from the prompt between `from` and `to`
static double share_between(double from, double to, double end) {
    return std::log((end - from + NEAR_THE_END)/(end - to + NEAR_THE_END));
}

double kvarn_checkpoint_value(const kvarn_prompt_view & prompt, size_t i) {
    const auto & ckpts = prompt.checkpoints;

    const double at     = double(ckpts[i].n_tokens);
    const double before = i > 0 ? double(ckpts[i - 1].n_tokens) : 0.0;
    const double end    = std::max(double(prompt.n_tokens), double(ckpts.back().n_tokens));

    double share = i + 1 < ckpts.size() ? share_between(at, double(ckpts[i + 1].n_tokens), end)
                                        : share_between(at, end, end) + share_between(0.0, end, end);

    return prompt.weight*share*(at - before);
}

namespace {

struct worth {
    double value = 0.0; // of all places that share the bytes
    size_t bytes = 0;
};

const worth & least(const std::map<const void *, worth> & all, const void ** key) {
    const worth * found = nullptr;
    for (const auto & [k, w] : all) {
        if (!found || w.value*found->bytes < found->value*w.bytes) {
            found = &w;
            *key  = k;
        }
    }
    return *found;
}

}

kvarn_eviction_plan kvarn_plan_eviction(std::vector<kvarn_prompt_view> prompts, size_t used, size_t budget) {
    size_t needed = 0;
    for (auto & prompt : prompts) {
        std::stable_sort(prompt.checkpoints.begin(), prompt.checkpoints.end(),
            [](const auto & a, const auto & b) { return a.n_tokens < b.n_tokens; });
        for (const auto & ckpt : prompt.checkpoints) {
            needed += ckpt.key ? 0 : ckpt.bytes;
        }
    }
    if (needed > budget) {
        return {};
    }

    kvarn_eviction_plan plan;
    while (used + needed > budget) {
        std::map<const void *, worth> all;
        for (const auto & prompt : prompts) {
            for (size_t i = 0; i < prompt.checkpoints.size(); ++i) {
                worth & w = all[prompt.checkpoints[i].key];
                w.value += kvarn_checkpoint_value(prompt, i);
                w.bytes  = std::max<size_t>(1, prompt.checkpoints[i].bytes);
            }
        }

        const void * key = nullptr;
        const worth & gone = least(all, &key);
        if (key == nullptr) {
            return {}; // the new one is worth least
        }

        used -= std::min(used, gone.bytes);
        plan.evict.push_back(key);
        for (auto & prompt : prompts) {
            auto & ckpts = prompt.checkpoints;
            ckpts.erase(std::remove_if(ckpts.begin(), ckpts.end(), [key](const auto & c) { return c.key == key; }), ckpts.end());
        }
    }
    plan.admit = true;

    return plan;
}
