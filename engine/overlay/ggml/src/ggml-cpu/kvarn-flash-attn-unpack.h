#pragma once

#include "ggml.h"

// What reads a cached row of n values as f32; asked for once for many rows.
ggml_to_float_t kvarn_fa_unpacker(ggml_type type);
