#pragma once

#include "ggml.h"

// A cached row of n values as f32.
void kvarn_fa_unpack(ggml_type type, const char * x, float * y, int64_t n);
