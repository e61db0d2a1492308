#pragma once

#include <cstdint>
#include <string>

// the value of --kv-pad, as llama_context_params::kv_pad takes it
// throws std::invalid_argument with a sentence unless it is `auto` or a multiple of 256 from 256 to 32768
uint16_t kvarn_parse_kv_pad(const std::string & value);
