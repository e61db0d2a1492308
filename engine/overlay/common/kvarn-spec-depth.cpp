#include "kvarn-spec-depth.h"

#include <algorithm>
#include <cmath>

static constexpr double FORGET      = 0.97;  // a step; half is forgotten after 23
static constexpr double FORGET_TEXT = 0.25;  // a new request
static constexpr double GAIN        = 1.03;  // a change must promise this much
static constexpr double COST_TOKEN  = 0.08;  // of a plain step, for one more drafted token, before any was timed
static constexpr int    DWELL       = 12;    // steps
static constexpr int    LOOK        = 3;     // steps of a probe that measures a neighbour
static constexpr int    LOOK_EVERY  = 64;    // steps
static constexpr int    LOOK_OLD    = 512;   // steps after which a neighbour's time is taken again
static constexpr int    GAP_MIN     = 32;    // steps between single drafts at depth 0
static constexpr int    GAP_MAX     = 256;
static constexpr int    WIN_MORE    = 3;     // an accepted probe goes on for so many steps
static constexpr int    WIN_MOST    = 12;
static constexpr int    WAIT        = 32;    // steps a probe waits for something to draft

kvarn_spec_depth::kvarn_spec_depth(int n_max, int n_start, int n_min) {
    depths.push_back(0);
    for (const int d : { 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64 }) {
        if (n_min <= d && d <= n_max) {
            depths.push_back(d);
        }
    }
    if (depths.size() == 1) {
        depths.push_back(n_max); // nothing is listed between the two
    }
    tried.assign(depths.back(), 0.0);
    right.assign(depths.back(), 0.0);
    time.resize(depths.size());
    known_ms.assign(depths.size(), 0.0);

    // what is believed before the first draft; forgotten like anything else
    tried[0] = 2.0;
    right[0] = 1.4;

    settled = std::max(1, level_of(n_start));
    gap     = GAP_MIN;

    // the plain step is what every depth is compared with
    trial   = 0;
    n_trial = LOOK;
}

int kvarn_spec_depth::level_of(int n) const {
    return int(std::upper_bound(depths.begin(), depths.end(), n) - depths.begin()) - 1;
}

int kvarn_spec_depth::round(int n) const {
    return depths[level_of(std::max(0, n))];
}

double kvarn_spec_depth::times::median() const {
    double sorted[N];
    std::copy(ms, ms + n, sorted);
    std::nth_element(sorted, sorted + n/2, sorted + n);
    return sorted[n/2];
}

double kvarn_spec_depth::acceptance(int position) const {
    double p = tried[0] > 1e-9 ? right[0]/tried[0] : 0.0;
    for (int i = 1; i <= position; ++i) {
        p = (right[i] + p)/(tried[i] + 1.0); // one count of belief: as good as the position before it
    }
    return p;
}

double kvarn_spec_depth::cost(int level) const {
    if (known_ms[level] > 0.0) {
        return known_ms[level];
    }

    int below = -1;
    int above = -1;
    int last  = -1; // the one measured below `below`
    for (int i = 0; i < (int) known_ms.size(); ++i) {
        if (known_ms[i] == 0.0) {
            continue;
        }
        if (i < level) {
            last  = below;
            below = i;
        } else if (above < 0) {
            above = i;
        }
    }

    const int d = depths[level];
    if (below >= 0 && above >= 0) {
        const double a = known_ms[below];
        const double b = known_ms[above];
        return a + (b - a)*(d - depths[below])/(depths[above] - depths[below]);
    }

    const auto guess = [](int depth) { return 1.0 + COST_TOKEN*depth; };
    if (last >= 0) {
        const double a     = known_ms[last];
        const double b     = known_ms[below];
        const double slope = std::max((b - a)/(depths[below] - depths[last]), 0.01*b);
        return b + slope*(d - depths[below]);
    }

    const int known = below >= 0 ? below : above;
    return known < 0 ? guess(d) : known_ms[known]*guess(d)/guess(depths[known]);
}

double kvarn_spec_depth::rate(int level) const {
    const double plain = cost(0);
    if (level == 0) {
        return 1.0/plain;
    }

    double tokens = 1.0;
    double run    = 1.0;
    double p      = 1.0;
    for (int i = 0; i < depths[level]; ++i) {
        p       = i == 0 ? acceptance(0) : (right[i] + p)/(tried[i] + 1.0);
        run    *= p;
        tokens += run;
    }

    // steps without anything to draft are plain ones at every depth
    const double q = std::max(available, 0.02);
    return (q*tokens + (1.0 - q))/(q*cost(level) + (1.0 - q)*plain);
}

void kvarn_spec_depth::count(int n_drafted, int n_accepted) {
    for (size_t i = 0; i < tried.size(); ++i) {
        // a share stays what it was when its weight is gone
        if (i > 0 || tried[i] > 0.5) {
            tried[i] *= FORGET;
            right[i] *= FORGET;
        }
    }
    for (int i = 0; i < n_drafted && i <= n_accepted; ++i) {
        tried[i] += 1.0;
        right[i] += i < n_accepted ? 1.0 : 0.0;
    }
    if (depth() > 0) {
        available = FORGET*available + (1.0 - FORGET)*(n_drafted > 0 ? 1.0 : 0.0);
    }
}

void kvarn_spec_depth::add_time(int level, double ms) {
    times & t = time[level];
    t.last = n_steps;
    if (t.seen++ == 0) {
        return; // the first builds its graph
    }

    const bool   full = t.n == times::N;
    const double old  = full ? t.median() : 0.0;

    t.ms[t.next] = ms;
    t.next       = (t.next + 1) % times::N;
    t.n          = std::min(t.n + 1, times::N);

    if (!full || trial >= 0 || level != settled) {
        return;
    }
    // the products of these factors telescope: noise does not add up while a depth is kept
    const double drift = t.median()/old;
    for (int i = 0; i < (int) time.size(); ++i) {
        for (int k = 0; i != level && k < time[i].n; ++k) {
            time[i].ms[k] *= drift;
        }
    }
}

// A longer draft is never the cheaper step: where it seems so, the machine paused while the shorter one was timed.
void kvarn_spec_depth::know_times() {
    double least = INFINITY;
    for (int i = (int) time.size() - 1; i >= 0; --i) {
        const double ms = time[i].n > 0 ? time[i].median() : INFINITY;
        known_ms[i] = ms < INFINITY && ms <= least ? ms : 0.0;
        least       = std::min(least, ms);
    }
}

int kvarn_spec_depth::best() const {
    int res = 0;
    for (int i = 1; i < (int) depths.size(); ++i) {
        if (rate(i) > rate(res)) {
            res = i;
        }
    }
    return res;
}

void kvarn_spec_depth::settle(bool after_trial) {
    if (!after_trial && n_dwell < DWELL) {
        return;
    }
    const int to = best();
    if (to == settled || rate(to) <= GAIN*rate(settled)) {
        return;
    }
    settled = to;
    n_dwell = 0;
    n_gap   = 0;
    gap     = GAP_MIN;
}

void kvarn_spec_depth::start_probe() {
    if (settled == 0) {
        trial   = 1;
        n_trial = 1;
        n_won   = 0;
        return;
    }
    for (const int off : { 1, -1, 2, -2 }) {
        const int other = settled + off;
        if (other < 0 || other >= (int) depths.size() || (time[other].n > 0 && n_steps - time[other].last < LOOK_OLD)) {
            continue;
        }
        trial   = other;
        n_trial = LOOK;
        n_won   = WIN_MOST; // nothing prolongs it
        return;
    }
}

void kvarn_spec_depth::choose(int n_drafted, int n_accepted) {
    if (trial >= 0) {
        const bool waits = trial > 0 && n_drafted == 0;
        if (waits && n_gap++ < WAIT) {
            return;
        }
        --n_trial;
        if (n_accepted > 0 && n_won < WIN_MOST) {
            n_trial += WIN_MORE;
            n_won   += WIN_MORE;
        }
        if (n_trial > 0) {
            return;
        }
        const int was = settled;
        trial = -1;
        n_gap = 0;
        settle(true);
        if (was == 0 && settled == 0) {
            gap = std::min(2*gap, GAP_MAX);
        }
        return;
    }

    ++n_dwell;
    ++n_gap;
    settle(false);
    if (n_gap >= (settled == 0 ? gap : LOOK_EVERY)) {
        n_gap = 0;
        start_probe();
    }
}

void kvarn_spec_depth::step(int n_drafted, int n_accepted, double ms) {
    ++n_steps;
    count(n_drafted, n_accepted);
    if (ms > 0.0) {
        add_time(level_of(n_drafted), ms);
        know_times();
    }
    choose(n_drafted, n_accepted);
}

void kvarn_spec_depth::new_text() {
    for (size_t i = 0; i < tried.size(); ++i) {
        const double keep = i == 0 && tried[i] < 1.0 ? 1.0 : FORGET_TEXT;
        tried[i] *= keep;
        right[i] *= keep;
    }
    gap   = GAP_MIN;
    n_gap = GAP_MIN/2;
}
