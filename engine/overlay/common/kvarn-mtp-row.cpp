#include "kvarn-mtp-row.h"

#include <algorithm>
#include <cstring>

void kvarn_mtp_row::check(std::vector<float> & row, const std::vector<float> & kept, llama_pos kept_pos, llama_pos at) {
    if (pos == at - 1) {
        return;
    }
    const int64_t i = (int64_t) at - 1 - kept_pos;
    if (pos != NONE && at > 0 && i >= 0 && (i + 1)*row.size() <= kept.size()) {
        std::copy_n(kept.begin() + i*row.size(), row.size(), row.begin());
    } else {
        std::fill(row.begin(), row.end(), 0.0f);
    }
    pos = at - 1;
}

std::vector<uint8_t> kvarn_mtp_row::save(const std::vector<float> & row) const {
    std::vector<uint8_t> data(sizeof(pos) + row.size()*sizeof(float));
    std::memcpy(data.data(),               &pos,       sizeof(pos));
    std::memcpy(data.data() + sizeof(pos), row.data(), row.size()*sizeof(float));
    return data;
}

void kvarn_mtp_row::load(std::vector<float> & row, const std::vector<uint8_t> & data) {
    if (data.size() != sizeof(pos) + row.size()*sizeof(float)) {
        pos = NONE;
        return;
    }
    std::memcpy(&pos,       data.data(),               sizeof(pos));
    std::memcpy(row.data(), data.data() + sizeof(pos), row.size()*sizeof(float));
}
