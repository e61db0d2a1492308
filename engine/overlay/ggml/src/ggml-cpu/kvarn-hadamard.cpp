#include "kvarn-hadamard.h"

#include "kvarn-kv-types.h"

#include <array>

#if defined(__AVX__)
#include <immintrin.h>

static constexpr int N_MAX = 1024; // of a row; heads are smaller

// D, one word for each value: a sign bit or nothing
struct alignas(32) sign_words {
    std::array<uint32_t, N_MAX> of {};

    sign_words() {
        for (int i = 0; i < N_MAX; ++i) {
            of[i] = kvarn_sign_bit((uint32_t) i);
        }
    }
};

static void flip_signs(float * x, int64_t n) {
    static const sign_words signs;
    for (int64_t i = 0; i < n; i += 8) {
        const __m256 d = _mm256_load_ps((const float *) signs.of.data() + i);
        _mm256_storeu_ps(x + i, _mm256_xor_ps(_mm256_loadu_ps(x + i), d));
    }
}

// (u, v) = (u + v, u - v)
static inline void butterfly(__m256 & u, __m256 & v) {
    const __m256 sum = _mm256_add_ps(u, v);
    v = _mm256_sub_ps(u, v);
    u = sum;
}

// The butterflies within eight values: a lane adds its partner, the second of each two with its own sign turned.
static inline __m256 transform_8(__m256 x) {
    const __m256 second_1 = _mm256_setr_ps(0.0f, -0.0f, 0.0f, -0.0f, 0.0f, -0.0f, 0.0f, -0.0f);
    const __m256 second_2 = _mm256_setr_ps(0.0f, 0.0f, -0.0f, -0.0f, 0.0f, 0.0f, -0.0f, -0.0f);
    const __m256 second_4 = _mm256_setr_ps(0.0f, 0.0f, 0.0f, 0.0f, -0.0f, -0.0f, -0.0f, -0.0f);
    x = _mm256_add_ps(_mm256_permute_ps(x, 0xb1),        _mm256_xor_ps(x, second_1));
    x = _mm256_add_ps(_mm256_permute_ps(x, 0x4e),        _mm256_xor_ps(x, second_2));
    x = _mm256_add_ps(_mm256_permute2f128_ps(x, x, 0x01), _mm256_xor_ps(x, second_4));
    return x;
}

// 64 values fill half the registers, so that each is loaded and stored once.
static void transform_64(float * x) {
    __m256 row[8];
    for (int i = 0; i < 8; ++i) {
        row[i] = transform_8(_mm256_loadu_ps(x + 8*i));
    }
    for (int apart = 1; apart < 8; apart *= 2) {
        for (int i = 0; i < 8; ++i) {
            if ((i & apart) == 0) {
                butterfly(row[i], row[i + apart]);
            }
        }
    }
    for (int i = 0; i < 8; ++i) {
        _mm256_storeu_ps(x + 8*i, row[i]);
    }
}

static void combine(float * x, int64_t n) {
    for (int64_t len = 64; len < n; len *= 2) {
        for (int64_t i = 0; i < n; i += 2*len) {
            for (int64_t j = i; j < i + len; j += 8) {
                __m256 u = _mm256_loadu_ps(x + j);
                __m256 v = _mm256_loadu_ps(x + j + len);
                butterfly(u, v);
                _mm256_storeu_ps(x + j, u);
                _mm256_storeu_ps(x + j + len, v);
            }
        }
    }
}

bool kvarn_maybe_hadamard(int32_t hint, float * x, int64_t n) {
    if (n < 64 || n > N_MAX) {
        return false;
    }
    if (hint == KVARN_HINT_ROTATE) {
        flip_signs(x, n);
    }
    for (int64_t i = 0; i < n; i += 64) {
        transform_64(x + i);
    }
    combine(x, n);
    if (hint == KVARN_HINT_UNROTATE) {
        flip_signs(x, n);
    }
    return true;
}
#else
bool kvarn_maybe_hadamard(int32_t, float *, int64_t) {
    return false;
}
#endif
