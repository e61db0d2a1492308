// Where the 32 values of group g lie in a row of blocks that begin with an fp16 scale.

#pragma once

#define GGML_COMMON_DECL_CPP
#include "ggml-common.h"
#include "kvarn-kv-types.h"

#include <cstddef>
#include <cstdint>

namespace kvarn_fa {

constexpr int GROUP = 32;

template <class block, int block_values>
struct layout {
    // groups 2i and 2i + 1 share a scale, and their codes follow each other
    static constexpr bool has_pairs = block_values >= 2*GROUP;

    static constexpr size_t block_bytes = sizeof(block);

    static size_t block_at(int g) { return g*GROUP/block_values*sizeof(block); }
    static int    in_block(int g) { return g % (block_values/GROUP); }
};

struct q8_0_layout : layout<block_q8_0, QK8_0> {
    static size_t codes_at(int g) { return block_at(g) + offsetof(block_q8_0, qs); }
};

// 16 bytes: the low nibbles of all, then the high nibbles
template <class block, int block_values>
struct nibble_layout : layout<block, block_values> {
    static size_t codes_at(int g) {
        return layout<block, block_values>::block_at(g) + offsetof(block, qs) + layout<block, block_values>::in_block(g)*16;
    }
};

// 8 bytes of two low bits, 4 bytes of one high bit; see kvarn-kv-types.h
template <class block, int block_values>
struct planar_layout : layout<block, block_values> {
    static size_t codes_at(int g) {
        return layout<block, block_values>::block_at(g) + offsetof(block, qs) + layout<block, block_values>::in_block(g)*8;
    }
    static size_t high_at(int g) {
        return layout<block, block_values>::block_at(g) + offsetof(block, qh) + layout<block, block_values>::in_block(g)*4;
    }
};

using q4_0_layout         = nibble_layout<block_q4_0, QK4_0>;
using iq4_nl_layout       = nibble_layout<block_iq4_nl, QK4_NL>;
using tbq4_0_layout       = nibble_layout<block_kvarn_tbq4_0, KVARN_QK>;
using tbq4_0_64_layout    = nibble_layout<block_kvarn_tbq4_0_64, KVARN_QK_64>;
using planar3_0_layout    = planar_layout<block_kvarn_planar3_0, KVARN_QK>;
using planar3_0_64_layout = planar_layout<block_kvarn_planar3_0_64, KVARN_QK_64>;
using tcq4_0_layout       = tbq4_0_layout;
using tcq4_0_64_layout    = tbq4_0_64_layout;
using tcq3_0_layout       = planar3_0_layout;
using tcq3_0_64_layout    = planar3_0_64_layout;

// Levels of a code. Sixteen entries, so that a byte shuffle can look them up.
struct q4_0_levels    { static constexpr int8_t table[16] = { -8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7 }; };
struct iq4_nl_levels  { static constexpr int8_t table[16] = { -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113 }; };
struct tbq4_levels    { static constexpr int8_t table[16] = KVARN_TBQ4_LEVELS; };
struct planar3_levels { static constexpr int8_t table[16] = KVARN_PLANAR3_LEVELS; };
struct tcq3_levels    { static constexpr int8_t table[16] = KVARN_TCQ3_LEVELS; };
struct tcq4_levels    { static constexpr int8_t table[32] = KVARN_TCQ4_LEVELS; };

} // namespace kvarn_fa
