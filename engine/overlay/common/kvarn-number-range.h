#pragma once

// Bounds of a JSON schema's {"type": "number"} as a grammar. Upstream bounds integers only and lets any number through.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

class common_json;

// Whole bounds only: what lies between two whole numbers is a whole part in range with any fraction behind it.
struct kvarn_number_range {
    std::optional<int64_t> min;
    std::optional<int64_t> max;
    bool min_open = false; // the bound itself is excluded
    bool max_open = false;

    bool is_bounded() const { return min || max; }
};

// A bound as a whole number, absent if the schema lacks it or gives it a fraction.
std::optional<int64_t> kvarn_whole_bound(const common_json & schema, const std::string & key);

// minimum, maximum, exclusiveMinimum and exclusiveMaximum of a schema, as far as they are whole.
kvarn_number_range kvarn_number_range_of(const common_json & schema);

// GBNF for a decimal number in the range, without exponent. int_rule gives the GBNF of the whole numbers from 0 <= first to
// last (INT64_MAX: no end). Throws std::runtime_error if no number lies in the range.
std::string kvarn_number_rule(const kvarn_number_range & range, const std::function<std::string(int64_t, int64_t)> & int_rule);
