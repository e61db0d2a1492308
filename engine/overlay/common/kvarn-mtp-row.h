#pragma once

#include "llama.h"

#include <cstdint>
#include <vector>

// The target's hidden row that the MTP block reads together with the next token. It belongs to one position of one
// text: used anywhere else it is another text's row, and the drafts after it depend on what the slot did before.
struct kvarn_mtp_row {
    static constexpr llama_pos NONE = -2; // no row; distinct from -1, the position before the first token

    llama_pos pos = NONE; // of the token that made the row

    // Makes `row` the one to read at position `at`. The row before the first token, and one nobody knows any more, is zero.
    //   kept, kept_pos: rows of the last verified batch and the position of the first of them, [n][row.size()]
    void check(std::vector<float> & row, const std::vector<float> & kept, llama_pos kept_pos, llama_pos at);

    std::vector<uint8_t> save(const std::vector<float> & row) const;

    // anything but a row saved for this width: no row
    void load(std::vector<float> & row, const std::vector<uint8_t> & data);
};
