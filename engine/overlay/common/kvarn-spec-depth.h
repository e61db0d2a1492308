#pragma once

#include <vector>

// Chooses how many tokens to draft: the listed depth with the most expected tokens per measured step time.
//
//   tokens(d) = 1 + sum over i <= d of p_1 * ... * p_i
//
// p_i is the share of drafts whose token i was right, of those whose tokens before it were. Counts are forgotten
// exponentially, one factor a step, so that what was learned at a depth no longer used fades: its p then follows the
// position before it, and the depth is tried again. At depth 0 nothing is learned, so single drafts probe whether the
// text has become predictable; each failure doubles the gap between probes.
//
// A step's time is the median of the last few at that depth. While one depth is kept, the others are scaled with it:
// a filling cache slows all of them.
//
// Pure: no clock, no lock, no model. One object a sequence.
class kvarn_spec_depth {
public:
    // n_max: the longest draft the drafter can make, at least 1
    // n_start: the depth to begin with, rounded down to a listed one
    // n_min:   the drafter throws a shorter draft away, so that no depth between 0 and this is of use
    kvarn_spec_depth(int n_max, int n_start, int n_min = 1);

    // tokens to draft in the next step; 0: none
    int depth() const { return depths[trial >= 0 ? trial : settled]; }

    // the depth kept between probes
    int depth_settled() const { return depths[settled]; }

    // the longest listed depth that n tokens fill: few lengths mean few graph shapes
    int round(int n) const;

    // one step has been decoded
    //   n_drafted:  tokens verified, a listed depth; 0 when there was nothing to draft
    //   n_accepted: how many of them were right
    //   ms:         the whole step, draft to sample; <= 0 when it is no measure (a prompt shared the batch)
    void step(int n_drafted, int n_accepted, double ms);

    // another text begins on this sequence: acceptance counts for less, times stay
    void new_text();

    // the model behind the choice
    double acceptance(int position) const; // p of the 0-based position, given that those before it were accepted
    double cost   (int level) const;       // ms of a step at depths[level], measured, between or beyond measured ones
    double rate   (int level) const;       // tokens per ms

    const std::vector<int> & levels() const { return depths; }

private:
    struct times {
        static constexpr int N = 9;

        double ms[N];
        int    n    = 0; // samples kept
        int    next = 0;
        int    seen = 0;
        int    last = 0; // step of the latest

        double median() const;
    };

    void count(int n_drafted, int n_accepted);
    void add_time(int level, double ms);
    void know_times();
    void choose(int n_drafted, int n_accepted);
    void start_probe();
    void settle(bool after_trial);
    int  level_of(int n) const;
    int  best() const;

    std::vector<int>    depths; // ascending, from 0
    std::vector<double> tried;  // by position
    std::vector<double> right;
    std::vector<times>  time;   // by level
    std::vector<double> known_ms; // by level: the median, 0 where there is none to be believed

    double available = 1.0; // share of the steps wanting a draft that got one
    int    n_steps   = 0;

    int settled   = 0;  // level
    int trial     = -1; // level; -1: none
    int n_trial   = 0;  // steps left in it
    int n_won     = 0;  // steps by which its successes have prolonged it
    int n_dwell   = 0;  // steps since the depth changed
    int n_gap     = 0;  // steps since the last probe
    int gap       = 0;  // steps between probes at depth 0
};
