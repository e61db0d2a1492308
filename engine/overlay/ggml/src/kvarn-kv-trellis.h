#pragma once

// The trellis of tcq4_0 and tcq3_0: what a symbol means depends on two bits before it, so with as many bits as a scalar code
// the levels to choose from are twice as many. Macros and plain arrays only, for C, C++ and device code alike.
//
// A symbol of k bits is rank | u << (k - 1), u its trellis bit. The symbols of one ring (KVARN_TCQ4_RING or KVARN_TCQ3_RING
// values that follow each other) form a circle: before the first comes the last. With symbols c, c1 before it and c2 before that
//
//   level = LEVELS[(c ^ (c2 & top)) | (c1 & top) << 1],  top = 1 << (k - 1)
//
// so e = u1 and w = u ^ u2 select one of four subsets, LEVELS[e][w], each in ascending order. Changing every u turns e and
// keeps w, and the levels of e = 1 are those of e = 0 with the other sign: the code is symmetric.
//
// tools/trellis_codebooks.py derives the levels. On Gaussian blocks of 128 the squared error is 0.00632 of the variance
// (4 bits; 16 levels without a trellis: 0.0094) and 0.0236 (3 bits; 0.0343).

#define KVARN_TCQ4_RING 16
#define KVARN_TCQ3_RING 32

#define KVARN_TCQ4_LEVELS {                     \
     -66,  -37,  -18,   -2,   13,   31,   56,  119, \
     -94,  -49,  -27,  -10,    5,   22,   42,   78, \
    -119,  -56,  -31,  -13,    2,   18,   37,   66, \
     -78,  -42,  -22,   -5,   10,   27,   49,   94, }
#define KVARN_TCQ4_PER_SIGMA 41.56f
#define KVARN_TCQ4_D_MAX     550.0f

#define KVARN_TCQ3_LEVELS { \
     -53,   -6,   39,  125, \
     -90,  -28,   15,   68, \
    -125,  -39,    6,   53, \
     -68,  -15,   28,   90, }
#define KVARN_TCQ3_PER_SIGMA 51.24f
#define KVARN_TCQ3_D_MAX     524.0f

// How a ring is encoded, the same in every implementation because all of it is integers:
//   1. q = x * (float) (KVARN_TRELLIS_FRACTION * PER_SIGMA * sqrt(n) / norm), rounded to the nearest integer, ties to even.
//      The factor is at most FLT_MAX.
//   2. For each value and subset the nearest level; a tie takes the lower one. Its error is the squared distance,
//      in units of 1 / KVARN_TRELLIS_FRACTION of a level.
//   3. States are u1 + 2 * u2. For each first state 0..3, the path of least total error that ends in the state it began in;
//      where two paths meet with equal errors, the one with u2 = 0 goes on. Of the four, the best; a tie takes the lower state.
// Totals stay below 2^29: the block's norm bounds the sum of q^2. KVARN_TRELLIS_FAR is the total of a state not yet reached.
#define KVARN_TRELLIS_FRACTION 16
#define KVARN_TRELLIS_FAR      0x30000000
