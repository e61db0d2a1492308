#pragma once

// Numbers for our test programs, and how far two lists of them are apart.

#include <cstddef>
#include <random>
#include <vector>

static inline std::vector<float> gaussian(size_t n, unsigned seed, float sigma = 1.0f) {
    std::mt19937 engine(seed);
    std::normal_distribution<float> normal(0.0f, sigma);
    std::vector<float> x(n);
    for (float & v : x) {
        v = normal(engine);
    }
    return x;
}

// Squared error of y as part of what it should be; of nothing, the error itself.
static inline double relative_error(const std::vector<float> & expected, const std::vector<float> & y) {
    double error = 0.0, power = 0.0;
    for (size_t i = 0; i < expected.size(); ++i) {
        error += ((double) y[i] - expected[i])*((double) y[i] - expected[i]);
        power += (double) expected[i]*expected[i];
    }
    return power == 0.0 ? error : error/power;
}
