// The codecs of kvarn-kv-types.h: golden bytes, error on Gaussian blocks and on rotated outliers, odd values, and that what
// the CPU backend computes has the reference's bytes. Prints one line per broken rule; exits 1 if there was any.

#include "test-kvarn-kv-blocks.h"
#include "test-kvarn-trellis.h"

#include "ggml.h"
#include "ggml-cpu.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

extern "C" ggml_to_float_t kvarn_to_float(enum ggml_type type); // ggml-cpu's reader

static const trellis * trellis_of(const kv_type & t) {
    const std::string name = t.name;
    return name.rfind("tcq4", 0) == 0 ? &tcq4 : name.rfind("tcq3", 0) == 0 ? &tcq3 : nullptr;
}

static std::vector<float> decoded(const kv_type & t, const std::vector<uint8_t> & bytes) {
    std::vector<float> y(bytes.size()/t.n_bytes*t.n_values);
    ggml_get_type_traits(t.type)->to_float(bytes.data(), y.data(), y.size());
    return y;
}

static std::vector<float> round_trip(const kv_type & t, const std::vector<float> & x) {
    return decoded(t, encoded(t, x));
}

static void test_traits() {
    for (const auto & t : kv_types) {
        EXPECT(strcmp(ggml_type_name(t.type), t.name) == 0, "%s", ggml_type_name(t.type));
        EXPECT(ggml_blck_size(t.type) == t.n_values && ggml_type_size(t.type) == t.n_bytes, "%s", t.name);
        EXPECT(ggml_is_quantized(t.type), "%s", t.name);
        EXPECT(ggml_get_type_traits_cpu(t.type)->vec_dot_type == GGML_TYPE_Q8_0, "%s", t.name);
    }
}

// Both signs and all levels, exact in float.
static std::vector<float> ramp(int n) {
    std::vector<float> x(n);
    for (int i = 0; i < n; ++i) {
        x[i] = (float) (((i*37) % n) - n/2)/(n/8) + 0.03125f;
    }
    return x;
}

static std::string hex(const std::vector<uint8_t> & bytes) {
    std::string text;
    char two[3];
    for (uint8_t b : bytes) {
        snprintf(two, sizeof(two), "%02x", b);
        text += two;
    }
    return text;
}

// Bytes of ramp() in the order of kv_types, from an independent encoder.
static const char * const golden[] = {
    "be2b92d5497cb3276ba2d5498cb4376ba2d5c4387cb3265a9dc5487cb3275a92d549386ba2d65a8dc4387ba3265a9dc4387c"
    "6ba2d5498cc4376ba2d6598dc4387ba3",
    "be2b42c963db853ca752c9742b964db853dab852ca742b964db863da853ca752c973",
    "9a2b89a228b65dd7759962d8765d97258aa2d8755da7298a62d8759da2288a62d7754c2693cd6693c964b3d96c32996c369b",
    "9a2ba1e8752d4a5297a5d4a5297a5e87a2d42ab55aa9d54aa556",
    "2a2bd0fa1cb66183a5d0fa154ee913a6d0f2691c36510bad5fea943e6103a550ea9514bed1faad4fe1143e510aad5fea9c3625d07a95ce6913b6d0f2ad47e914"
    "3650",
    "2b2b90e4b9f6421653a0ed39865a976ba175e428ed41865b97e4b9fdca965390e4b9",
    "a229e4798ed7344d92e4794ed3244d92e7394e9324799ee7398e92e4399ee339499382949d6fec4b90b2f3911de452d6be05",
    "ac29c8761cb62d8b61d872d8b61c8761cb628b675d2ceba20c17",
};

static void test_golden_bytes() {
    for (size_t i = 0; i < sizeof(kv_types)/sizeof(kv_types[0]); ++i) {
        const std::string got = hex(encoded(kv_types[i], ramp(kv_types[i].n_values)));
        EXPECT(got == golden[i], "%s: %s", kv_types[i].name, got.c_str());
    }
}

static void test_gaussian_error() {
    for (const auto & t : kv_types) {
        const auto   x     = gaussian((size_t) t.n_values*100000, 1);
        const double error = relative_error(x, round_trip(t, x));
        printf("%-13s gaussian error %.5f, %.2f bits a value\n", t.name, error, 8.0*t.n_bytes/t.n_values);
        // a block is scaled by its own norm, which knows a little more than the distribution: about 4/n less error
        const double low = t.gaussian_error*(0.98 - (trellis_of(t) ? 0.0 : 5.0/t.n_values));
        EXPECT(error > low && error < t.gaussian_error*1.02, "%s: %.5f", t.name, error);
    }
}

static void hadamard(float * x, int n) {
    for (int step = 1; step < n; step *= 2) {
        for (int i = 0; i < n; i += 2*step) {
            for (int j = i; j < i + step; ++j) {
                const float a = x[j], b = x[j + step];
                x[j] = a + b;
                x[j + step] = a - b;
            }
        }
    }
    for (int i = 0; i < n; ++i) {
        x[i] /= std::sqrt((float) n);
    }
}

static void test_outlier_channels() {
    for (const auto & t : kv_types) {
        auto x = gaussian((size_t) t.n_values*20000, 2);
        for (size_t i = 0; i < x.size(); i += t.n_values) {
            x[i + 5]  *= 10;
            x[i + 40] *= 10;
        }
        const double plain = relative_error(x, round_trip(t, x));
        for (size_t i = 0; i < x.size(); i += t.n_values) {
            hadamard(&x[i], t.n_values);
        }
        const double rotated = relative_error(x, round_trip(t, x));
        printf("%-13s outlier error %.4f plain, %.4f rotated\n", t.name, plain, rotated);
        EXPECT(rotated < t.gaussian_error*1.1, "%s: %.4f", t.name, rotated);
        EXPECT(plain > 3*rotated, "%s: %.4f; the rotation is what makes the codec work", t.name, plain);
    }
}

static void test_norm_is_kept() {
    for (const auto & t : kv_types) {
        const auto x = gaussian(t.n_values, 3, 7.0f);
        const auto y = round_trip(t, x);
        double nx = 0, ny = 0;
        for (size_t i = 0; i < x.size(); ++i) {
            nx += x[i]*x[i];
            ny += y[i]*y[i];
        }
        EXPECT(std::fabs(std::sqrt(ny/nx) - 1.0) < 1e-3, "%s: %g of %g", t.name, ny, nx);
    }
}

static void test_zero_blocks() {
    for (const auto & t : kv_types) {
        for (float v : { 0.0f, -0.0f, 1e-30f, 1e-40f, std::numeric_limits<float>::quiet_NaN() }) {
            const auto bytes = encoded(t, std::vector<float>(t.n_values, v));
            EXPECT(bytes == std::vector<uint8_t>(t.n_bytes, 0), "%s of %g: %s", t.name, v, hex(bytes).c_str());
            for (float y : decoded(t, bytes)) {
                EXPECT(y == 0.0f, "%s of %g: %g", t.name, v, y);
            }
        }
    }
}

static void test_values_that_are_no_numbers() {
    const float inf = std::numeric_limits<float>::infinity();
    const float nan = std::numeric_limits<float>::quiet_NaN();
    for (const auto & t : kv_types) {
        auto x = gaussian(t.n_values, 4);
        auto z = x;
        x[7] = nan;
        z[7] = 0.0f;
        EXPECT(encoded(t, x) == encoded(t, z), "%s: NaN is not as 0", t.name);
        x[7] = -inf;
        z[7] = -65504.0f;
        EXPECT(encoded(t, x) == encoded(t, z), "%s: -Inf is not as the least fp16", t.name);
        z[7] = -3e38f;
        EXPECT(encoded(t, x) == encoded(t, z), "%s: a huge value is not as the least fp16", t.name);
        for (float huge : { 65504.0f, 3e38f, inf, -inf }) {
            const auto bytes = encoded(t, std::vector<float>(t.n_values, huge));
            EXPECT(ggml_validate_row_data(t.type, bytes.data(), bytes.size()), "%s of %g", t.name, huge);
            for (float y : decoded(t, bytes)) {
                EXPECT(std::fabs(y) <= 65504.0f && std::signbit(y) == std::signbit(huge), "%s of %g: %g", t.name, huge, y);
            }
        }
    }
}

static void test_scales_are_validated() {
    for (const auto & t : kv_types) {
        auto bytes = encoded(t, gaussian(3*t.n_values, 5));
        EXPECT(ggml_validate_row_data(t.type, bytes.data(), bytes.size()), "%s", t.name);
        bytes[t.n_bytes + 1] = 0x7c; // the second block's scale is Inf or NaN
        EXPECT(!ggml_validate_row_data(t.type, bytes.data(), bytes.size()), "%s", t.name);
    }
}

static void test_chunks_join() {
    for (const auto & t : kv_types) {
        const int64_t n_row = 2*t.n_values;
        const auto    x     = gaussian(3*n_row, 6);
        std::vector<uint8_t> bytes(ggml_row_size(t.type, 3*n_row));
        size_t n = ggml_quantize_chunk(t.type, x.data(), bytes.data(), 0, 1, n_row, nullptr);
        n += ggml_quantize_chunk(t.type, x.data(), bytes.data(), n_row, 2, n_row, nullptr);
        EXPECT(n == bytes.size() && bytes == encoded(t, x), "%s", t.name);
    }
}

// Whatever the numbers are, the backend writes what the reference writes.
static void test_backend_writes_reference_bytes() {
    std::mt19937 engine(7);
    std::uniform_int_distribution<uint32_t> bits;
    for (const auto & t : kv_types) {
        for (int round = 0; round < 3000; ++round) {
            auto x = gaussian(2*t.n_values, 100 + round, std::pow(10.0f, (float) (round % 13) - 6));
            if (round % 5 == 1) {
                for (size_t i = 0; i < x.size(); i += 1 + bits(engine) % 40) {
                    const uint32_t any = bits(engine);
                    memcpy(&x[i], &any, sizeof(any));
                }
            }
            if (round % 5 == 2) {
                for (float & v : x) {
                    v = std::round(v*4)/4; // many equal values and zeros
                }
            }
            EXPECT(encoded(t, x, true) == encoded(t, x, false), "%s, round %d", t.name, round);
        }
    }
}

static double energy_of(const std::vector<float> & x) {
    double sum[32] = { 0 };
    for (size_t j = 0; j < x.size(); ++j) {
        sum[j%32] += (double) x[j]*x[j];
    }
    for (int step = 16; step > 0; step /= 2) {
        for (int l = 0; l < step; ++l) {
            sum[l] += sum[l + step];
        }
    }
    return sum[0];
}

// No other choice of trellis bits, with the nearest level for each, is nearer than what is stored.
static void test_the_nearest_path_is_found() {
    for (const auto & t : kv_types) {
        const trellis * code = trellis_of(t);
        for (unsigned round = 0; code && round < 12; ++round) {
            auto x = gaussian(t.n_values, 200 + round);
            x[round] *= round % 3 == 2 ? 30.0f : 1.0f; // far beyond the last level
            std::vector<int32_t> q(t.n_values);
            const float scale = (float) (KVARN_TRELLIS_FRACTION*((float) code->per_sigma*std::sqrt((double) t.n_values)/std::sqrt(energy_of(x))));
            for (int j = 0; j < t.n_values; ++j) {
                q[j] = (int32_t) std::lrint(x[j]*scale);
            }
            const auto bytes = encoded(t, x, round % 2 == 0);
            const auto level = code->stored_levels(bytes.data() + 2, t.n_values);
            for (int begin = 0; begin < t.n_values; begin += code->ring) {
                int64_t total = 0;
                for (int j = begin; j < begin + code->ring; ++j) {
                    const int64_t distance = q[j] - KVARN_TRELLIS_FRACTION*level[j];
                    total += distance*distance;
                }
                const int64_t best = code->least_of_ring(&q[begin]);
                EXPECT(total == best, "%s, round %u: %lld, and %lld is possible", t.name, round, (long long) total, (long long) best);
            }
        }
    }
}

// Every sequence of bytes is a block: the reference reads what the rule says, and the backend what the reference reads.
static void test_any_bytes_are_a_block() {
    std::mt19937 engine(11);
    for (const auto & t : kv_types) {
        const trellis * code = trellis_of(t);
        for (int round = 0; round < 200; ++round) {
            std::vector<uint8_t> bytes(t.n_bytes);
            for (auto & b : bytes) {
                b = (uint8_t) engine();
            }
            bytes[0] = 0x00;
            bytes[1] = 0x3c; // 1.0
            const auto y = decoded(t, bytes);
            std::vector<float> z(t.n_values);
            kvarn_to_float(t.type)(bytes.data(), z.data(), t.n_values);
            EXPECT(y == z, "%s, round %d", t.name, round);
            if (code) {
                const auto level = code->stored_levels(bytes.data() + 2, t.n_values);
                EXPECT(std::equal(level.begin(), level.end(), y.begin()), "%s, round %d", t.name, round);
            }
        }
    }
}

static void test_backend_dot() {
    const auto to_q8   = ggml_get_type_traits_cpu(GGML_TYPE_Q8_0)->from_float;
    const auto from_q8 = ggml_get_type_traits(GGML_TYPE_Q8_0)->to_float;
    for (const auto & t : kv_types) {
        for (int n_blocks = 1; n_blocks <= 5; ++n_blocks) {
            const int  n = n_blocks*t.n_values;
            const auto k = encoded(t, gaussian(n, 8 + n));
            const auto q = gaussian(n, 9 + n, 3.0f);
            std::vector<uint8_t> q8(ggml_row_size(GGML_TYPE_Q8_0, n));
            std::vector<float>   qf(n);
            to_q8(q.data(), q8.data(), n);
            from_q8(q8.data(), qf.data(), n);
            const auto kf = decoded(t, k);
            double expected = 0, size = 0;
            for (int i = 0; i < n; ++i) {
                expected += (double) kf[i]*qf[i];
                size     += std::fabs((double) kf[i]*qf[i]);
            }
            float got = NAN;
            ggml_get_type_traits_cpu(t.type)->vec_dot(n, &got, 0, k.data(), 0, q8.data(), 0, 1);
            EXPECT(std::fabs(got - expected) < 1e-6*size, "%s x %d: %.9g, not %.9g", t.name, n, got, expected);
        }
    }
}

int main() {
    ggml_cpu_init();
    for (auto test : { test_traits, test_golden_bytes, test_gaussian_error, test_outlier_channels, test_norm_is_kept, test_zero_blocks,
                       test_values_that_are_no_numbers, test_scales_are_validated, test_chunks_join,
                       test_backend_writes_reference_bytes, test_the_nearest_path_is_found,
                       test_any_bytes_are_a_block, test_backend_dot }) {
        test();
    }
    printf("%s\n", n_broken ? "FAILED" : "all kept");
    return n_broken ? 1 : 0;
}
