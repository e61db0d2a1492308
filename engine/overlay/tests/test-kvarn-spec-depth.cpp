// The choice of the draft length against simulated texts and machines: it has to end at the best depth, stay there,
// and lose little on the way. No model, no clock.

#include "../common/kvarn-spec-depth.h"

#include <cmath>
#include <cstdio>
#include <functional>
#include <random>
#include <string>
#include <vector>

struct world {
    std::function<double(int step, int position)> p;    // of a draft's position, given those before it
    std::function<double(int depth)>              cost; // ms
    double available = 1.0;                             // share of steps with anything to draft
    int    n_min     = 1;                               // the drafter throws a shorter draft away
    int    n_paused  = 0;                               // so many steps at first seem ten times as long
};

struct outcome {
    double at_best; // share of the last steps whose settled depth was the best
    double speed;   // tokens per ms there, against always the best depth
    int    depth;
};

static double true_rate(const world & w, int step, int depth) {
    double tokens = 1.0;
    double run    = 1.0;
    for (int i = 0; i < depth; ++i) {
        run    *= w.p(step, i);
        tokens += run;
    }
    const double q = depth > 0 ? w.available : 0.0;
    return (q*tokens + 1.0 - q)/(q*w.cost(depth) + (1.0 - q)*w.cost(0));
}

static int best_depth(const world & w, int step, const std::vector<int> & depths) {
    int best = 0;
    for (const int d : depths) {
        if (true_rate(w, step, d) > true_rate(w, step, best)) {
            best = d;
        }
    }
    return best;
}

// the last `n_tail` of `n_steps` are judged
static outcome run(const world & w, int n_max, int n_steps, int n_tail, int seed) {
    std::mt19937 rng(seed);
    std::uniform_real_distribution<double> unit(0.0, 1.0);
    std::normal_distribution<double> noise(1.0, 0.05);

    kvarn_spec_depth policy(n_max, 3, w.n_min);

    const int best = best_depth(w, n_steps - 1, policy.levels());

    double tokens = 0.0;
    double ms_all = 0.0;
    int    n_best = 0;
    for (int step = 0; step < n_steps; ++step) {
        const int n_drafted = unit(rng) < w.available && policy.depth() >= w.n_min ? policy.depth() : 0;

        int n_accepted = 0;
        while (n_accepted < n_drafted && unit(rng) < w.p(step, n_accepted)) {
            ++n_accepted;
        }

        // one step in fifty is disturbed
        const double ms   = w.cost(n_drafted);
        const double seen = ms*std::max(0.5, noise(rng))*(unit(rng) < 0.02 ? 3.0 : 1.0)*(step < w.n_paused ? 10.0 : 1.0);
        policy.step(n_drafted, n_accepted, seen);

        if (step >= n_steps - n_tail) {
            tokens += 1 + n_accepted;
            ms_all += ms;
            n_best += policy.depth_settled() == best;
        }
    }
    return { double(n_best)/n_tail, tokens/ms_all/true_rate(w, n_steps - 1, best), best };
}

static int n_failed = 0;

static void check(bool ok, const std::string & what) {
    printf("%s %s\n", ok ? "ok  " : "FAIL", what.c_str());
    n_failed += !ok;
}

static void judge(const char * name, const world & w, int n_max, int n_steps, int n_tail, double at_best, double speed) {
    const int n_seeds = 40;

    double share = 0.0;
    double fast  = 0.0;
    int    best  = 0;
    for (int seed = 0; seed < n_seeds; ++seed) {
        const outcome o = run(w, n_max, n_steps, n_tail, seed);
        share += o.at_best/n_seeds;
        fast  += o.speed  /n_seeds;
        best   = o.depth;
    }
    char line[256];
    snprintf(line, sizeof(line), "%-44s best %2d, there %3.0f %% of steps (>= %.0f), speed %.3f of the best (>= %.3f)",
            name, best, 100*share, 100*at_best, fast, speed);
    check(share >= at_best && fast >= speed, line);
}

static std::function<double(int, int)> curve(std::vector<double> p) {
    return [p](int, int position) { return p[std::min<size_t>(position, p.size() - 1)]; };
}

static std::function<double(int)> linear(double slope) {
    return [slope](int depth) { return 10.0*(1.0 + slope*depth); };
}

int main() {
    // the trained test model's shares by position at depth 4, .957 .916 .884 .780, as chances given the ones before
    const auto good = curve({ 0.957, 0.957, 0.965, 0.882 });
    // a third of three tokens accepted
    const auto poor = curve({ 0.60, 0.55, 0.50, 0.50 });
    const auto none = curve({ 0.0 });

    const auto steep_after_2 = [](int depth) { return 10.0*(1.0 + 0.1*depth + (depth > 2 ? 1.0 : 0.0)); };

    judge("good text, cheap drafts",               { good, linear(0.15) },        4,  600, 300, 0.90, 0.97);
    judge("good text, at most one draft",          { good, linear(0.15) },        1,  600, 300, 0.95, 0.97);
    judge("good text, dear from the third draft",  { good, steep_after_2 },       4,  600, 300, 0.85, 0.96);
    judge("good text, no draft is worth it",       { good, linear(1.20) },        4,  900, 300, 0.90, 0.97);
    judge("poor text, drafts of middling price",   { poor, linear(0.38) },        4, 2000, 1000, 0.60, 0.96);
    judge("poor text, dear drafts",                { poor, linear(0.80) },        4, 1200, 600, 0.85, 0.97);
    judge("nothing is ever right",                 { none, linear(0.15) },        4, 1500, 1000, 0.99, 0.99);
    judge("nothing is ever right, dear drafts",    { none, linear(0.90) },        8, 1500, 1000, 0.99, 0.99);
    judge("a loop, long drafts",                   { curve({ 0.995 }), linear(0.10) }, 64, 1200, 400, 0.30, 0.93);
    judge("a loop, drafts now and then",           { curve({ 0.98 }), linear(0.10), 0.3 }, 16, 1500, 500, 0.40, 0.94);
    judge("rare and wrong drafts",                 { none, linear(0.30), 0.1 },   48, 3000, 1500, 0.95, 0.99);

    judge("nothing is ever right, pauses at first", { none, linear(0.15), 1.0, 1, 3 }, 4, 200, 100, 0.90, 0.95);
    judge("good text, pauses at first",            { good, linear(0.15), 1.0, 1, 3 }, 4, 600, 300, 0.80, 0.95);

    const auto dip = [&](int step, int position) { return step >= 500 && step < 1000 ? 0.0 : good(step, position); };
    judge("in the dip",                            { dip, linear(0.15) },         4, 1000, 250, 0.97, 0.97);
    judge("after the dip",                         { dip, linear(0.15) },         4, 1800, 300, 0.90, 0.96);
    judge("after the dip, drafts of 3 at least",   { dip, linear(0.15), 1.0, 3 }, 4, 1800, 300, 0.90, 0.96);

    // a cache that fills slows every depth by the same factor; the choice has to stay
    {
        kvarn_spec_depth policy(4, 3);
        std::mt19937 rng(1);
        int n_plain = 0;
        for (int step = 0; step < 4000; ++step) {
            const int d = policy.depth();
            int n = 0;
            while (n < d && std::generate_canonical<double, 32>(rng) < good(step, n)) {
                ++n;
            }
            policy.step(d, n, 10.0*(1.0 + 0.15*d)*(1.0 + step/1000.0));
            n_plain += step > 100 && policy.depth_settled() == 0;
        }
        check(n_plain == 0, "a step five times as long as at first is no reason to stop drafting");
    }

    // only listed depths, never above the drafter's own limit
    {
        const kvarn_spec_depth policy(7, 3);
        check(policy.levels() == std::vector<int>({ 0, 1, 2, 3, 4, 6 }), "depths up to 7");
        check(policy.round(5) == 4 && policy.round(6) == 6 && policy.round(100) == 6 && policy.round(0) == 0, "drafts are cut to a listed depth");
        check(policy.depth() == 0 && policy.depth_settled() == 3, "the plain step is timed first");

        const kvarn_spec_depth from_3(7, 2, 3);
        check(from_3.levels() == std::vector<int>({ 0, 3, 4, 6 }), "depths from 3 up to 7");
        check(from_3.depth_settled() == 3 && from_3.round(2) == 0, "a draft shorter than 3 is none");
        check(kvarn_spec_depth(5, 3, 5).levels() == std::vector<int>({ 0, 5 }), "the only depth there is need not be a listed one");
        check(kvarn_spec_depth(4, 3, 9).levels() == std::vector<int>({ 0, 4 }), "a minimum above the maximum leaves the maximum");
    }

    printf("%s\n", n_failed == 0 ? "all passed" : "FAILED");
    return n_failed == 0 ? 0 : 1;
}
