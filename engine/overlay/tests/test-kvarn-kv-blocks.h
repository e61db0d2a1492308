#pragma once

// The cache types of kvarn-kv-types.h as our test programs name them, and blocks of them.

#include "test-kvarn-expect.h"
#include "test-kvarn-vectors.h"

#include "ggml.h"
#include "ggml-cpu.h"

#include <cstdint>
#include <vector>

struct kv_type {
    ggml_type    type;
    const char * name;
    int          n_values;      // of a block
    size_t       n_bytes;       // of a block
    double       gaussian_error; // squared error as part of the variance: of the codebook, or with a trellis of such blocks
};

static const kv_type kv_types[] = {
    { GGML_TYPE_KVARN_TBQ4_0,       "tbq4_0",       128, 66, 0.0095 },
    { GGML_TYPE_KVARN_TBQ4_0_64,    "tbq4_0_64",     64, 34, 0.0095 },
    { GGML_TYPE_KVARN_PLANAR3_0,    "planar3_0",    128, 50, 0.0346 },
    { GGML_TYPE_KVARN_PLANAR3_0_64, "planar3_0_64",  64, 26, 0.0346 },
    { GGML_TYPE_KVARN_TCQ4_0,       "tcq4_0",       128, 66, 0.00632 },
    { GGML_TYPE_KVARN_TCQ4_0_64,    "tcq4_0_64",     64, 34, 0.00611 },
    { GGML_TYPE_KVARN_TCQ3_0,       "tcq3_0",       128, 50, 0.02359 },
    { GGML_TYPE_KVARN_TCQ3_0_64,    "tcq3_0_64",     64, 26, 0.02296 },
};

static inline std::vector<uint8_t> encoded(const kv_type & t, const std::vector<float> & x, bool reference = true) {
    std::vector<uint8_t> bytes(ggml_row_size(t.type, x.size()), 0xee);
    const auto from_float = reference ? ggml_get_type_traits(t.type)->from_float_ref : ggml_get_type_traits_cpu(t.type)->from_float;
    from_float(x.data(), bytes.data(), x.size());
    return bytes;
}
