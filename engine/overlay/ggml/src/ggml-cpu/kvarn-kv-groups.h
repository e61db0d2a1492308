#pragma once

// One group of 32 values is the unit everywhere: 16 bytes of nibbles, or 8 + 4 bytes of planes, against one block_q8_0.
// For each instruction set: the levels of a group as int8 (*_group), their product with a block_q8_0 as partial sums
// (dot_group, sum_of), and d * levels as floats (store_scaled).
//
// Included by one file, after ggml-common.h and ggml-cpu's own headers.

#include "kvarn-kv-types.h"

#include <string.h>

static const int8_t tbq4_levels[16]    = KVARN_TBQ4_LEVELS;
static const int8_t planar3_levels[16] = KVARN_PLANAR3_LEVELS;
static const int8_t tcq4_levels[32]    = KVARN_TCQ4_LEVELS;
static const int8_t tcq3_levels[16]    = KVARN_TCQ3_LEVELS;

// bit j of a group's plane is that of value j
static inline uint32_t bits_at(const uint8_t * qh) {
    uint32_t bits;
    memcpy(&bits, qh, 4);
    return bits;
}

// each value's bit n places before, in a ring of 32
static inline uint32_t rotated(uint32_t bits, int n) {
    return bits << n | bits >> (32 - n);
}

#if defined(__AVX2__)
#include "kvarn-kv-groups-x86.h"
#elif defined(__ARM_NEON) && defined(__aarch64__)
#include "kvarn-kv-groups-neon.h"
#else
#include "kvarn-kv-groups-any.h"
#endif
