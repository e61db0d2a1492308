// Which checkpoints are kept within a budget: never more than it allows, one near the end, spread thinner towards the
// start, none given up for one that is worth less, shared bytes once. Pure, so no model is needed.
// Prints one line per broken rule; exits 1 if there was any.

#include "kvarn-checkpoint-policy.h"

#include <algorithm>
#include <cstdio>
#include <random>
#include <set>
#include <vector>

static int n_broken = 0;

#define EXPECT(condition)                                              \
    do {                                                               \
        if (!(condition)) {                                            \
            ++n_broken;                                                \
            printf("line %d: %s\n", __LINE__, #condition);             \
        }                                                              \
    } while (0)

static const size_t SIZE = 100;

static const void * key_of(int64_t n) {
    return (const void *) (intptr_t) n;
}

// one conversation: a checkpoint every `step` tokens, room for `room`; the positions kept at the end
static std::vector<int64_t> conversation(int64_t step, int64_t end, size_t room) {
    std::vector<int64_t> kept;
    for (int64_t at = step; at <= end; at += step) {
        kvarn_prompt_view prompt = { at + step, 1.0, {} };
        for (int64_t p : kept) {
            prompt.checkpoints.push_back({ key_of(p), p, SIZE });
        }
        prompt.checkpoints.push_back({ nullptr, at, SIZE });

        const auto plan = kvarn_plan_eviction({ prompt }, kept.size()*SIZE, room*SIZE);
        EXPECT(plan.admit);
        for (const void * key : plan.evict) {
            kept.erase(std::remove_if(kept.begin(), kept.end(), [key](int64_t p) { return key_of(p) == key; }), kept.end());
        }
        kept.push_back(at);
        EXPECT(kept.size() <= room);
    }
    return kept;
}

static void check_spread() {
    const auto kept = conversation(500, 50000, 8);

    EXPECT(kept.size() == 8);
    EXPECT(kept.back() == 50000);
    EXPECT(kept.front() < 40000); // an early edit does not cost everything

    // what an edit at x prefills beyond what it has to is at most twice that
    for (int64_t x = 30000; x < 49500; x += 500) {
        int64_t from = 0;
        for (int64_t p : kept) {
            from = p <= x ? p : from;
        }
        EXPECT(x - from <= 2*(50500 - x));
    }
}

static void check_room() {
    const kvarn_prompt_view prompt = { 1000, 1.0, { { key_of(1), 100, SIZE }, { nullptr, 900, SIZE } } };

    EXPECT(!kvarn_plan_eviction({ prompt }, SIZE, SIZE - 1).admit);        // does not fit at all
    EXPECT( kvarn_plan_eviction({ prompt }, SIZE, 2*SIZE).evict.empty());  // fits as it is
    const auto one = kvarn_plan_eviction({ prompt }, SIZE, SIZE);
    EXPECT(one.admit && one.evict.size() == 1 && one.evict[0] == key_of(1));

    // bytes nobody here holds cannot be evicted
    EXPECT(!kvarn_plan_eviction({ { 1000, 1.0, { { nullptr, 900, SIZE } } } }, 5*SIZE, 5*SIZE).admit);

    // a sequence that is worth next to nothing does not displace a long one
    const kvarn_prompt_view lng = { 50000, 0.5, { { key_of(1), 49000, SIZE } } };
    const kvarn_prompt_view sht = { 50,    1.0, { { nullptr,      40, SIZE } } };
    const auto none = kvarn_plan_eviction({ lng, sht }, SIZE, SIZE);
    EXPECT(!none.admit && none.evict.empty());
}

static void check_shared() {
    // the same checkpoint in a slot and in the prompt cache: its bytes are freed only when both let go
    const kvarn_prompt_view slot   = { 2000, 1.0, { { key_of(1), 500, SIZE }, { key_of(2), 1000, SIZE }, { nullptr, 1500, SIZE } } };
    const kvarn_prompt_view cached = { 1100, 0.5, { { key_of(1), 500, SIZE } } };

    const auto plan = kvarn_plan_eviction({ slot, cached }, 2*SIZE, 2*SIZE);
    EXPECT(plan.admit);
    EXPECT(plan.evict.size() == 1 && plan.evict[0] == key_of(2));
}

static void check_random() {
    std::mt19937 random(7);
    for (int round = 0; round < 2000; ++round) {
        std::vector<kvarn_prompt_view> prompts(1 + random() % 5);
        size_t used = 0;
        int64_t key = 1;
        for (auto & prompt : prompts) {
            prompt = { int64_t(random() % 20000), 1.0/(1 + random() % 4), {} };
            for (int i = random() % 6; i > 0; --i) {
                const size_t bytes = random() % 500;
                prompt.checkpoints.push_back({ key_of(key++), int64_t(random() % (prompt.n_tokens + 1)), bytes });
                used += bytes;
            }
        }
        const size_t needed = random() % 500;
        const size_t budget = random() % 3000;
        prompts[0].checkpoints.push_back({ nullptr, prompts[0].n_tokens/2, needed });

        const auto plan = kvarn_plan_eviction(prompts, used, budget);
        const std::set<const void *> gone(plan.evict.begin(), plan.evict.end());
        EXPECT(gone.size() == plan.evict.size());
        EXPECT(plan.admit || plan.evict.empty());

        size_t left = needed;
        for (const auto & prompt : prompts) {
            for (const auto & ckpt : prompt.checkpoints) {
                left += ckpt.key && !gone.count(ckpt.key) ? ckpt.bytes : 0;
            }
        }
        EXPECT(!plan.admit || left <= budget);
    }
}

int main() {
    check_spread();
    check_room();
    check_shared();
    check_random();

    printf("checkpoint policy: %s\n", n_broken ? "broken" : "ok");
    return n_broken ? 1 : 0;
}
