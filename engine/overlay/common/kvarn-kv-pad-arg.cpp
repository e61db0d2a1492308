#include "kvarn-kv-pad-arg.h"

#include "../src/kvarn-kv-pad.h"

#include <stdexcept>

uint16_t kvarn_parse_kv_pad(const std::string & value) {
    if (value == "auto") {
        return KVARN_KV_PAD_AUTO;
    }

    const bool is_number = !value.empty() && value.size() <= 5 && value.find_first_not_of("0123456789") == std::string::npos;
    const int  pad       = is_number ? std::stoi(value) : 0;
    if (pad < (int) KVARN_KV_PAD_STEP || !kvarn_kv_pad_is_valid(pad)) {
        throw std::invalid_argument("--kv-pad takes auto or a multiple of 256 from 256 to 32768, not '" + value + "'");
    }
    return (uint16_t) pad;
}
