#include "kvarn-number-range.h"

#include "common.h"
#include "json.h"

#include <cmath>
#include <stdexcept>
#include <vector>

static constexpr double  EXACT_DOUBLE = 9007199254740992.0; // 2^53
static constexpr int64_t NO_END       = INT64_MAX;

static const char * ANY_FRACTION      = "(\".\" [0-9]{1,16})?";
static const char * ZERO_FRACTION     = "(\".\" \"0\"{1,16})?";
static const char * POSITIVE_FRACTION = "\".\" \"0\"{0,15} [1-9] [0-9]{0,15}";

std::optional<int64_t> kvarn_whole_bound(const common_json & schema, const std::string & key) {
    if (!schema.contains(key) || !schema.at(key).is_number()) {
        return std::nullopt;
    }
    const double bound = schema.at(key).get<double>();
    if (std::trunc(bound) != bound || std::fabs(bound) > EXACT_DOUBLE) {
        return std::nullopt;
    }
    return (int64_t) bound;
}

kvarn_number_range kvarn_number_range_of(const common_json & schema) {
    kvarn_number_range range;
    range.min      = kvarn_whole_bound(schema, "minimum");
    range.max      = kvarn_whole_bound(schema, "maximum");
    range.min_open = !range.min;
    range.max_open = !range.max;
    if (range.min_open) {
        range.min = kvarn_whole_bound(schema, "exclusiveMinimum");
    }
    if (range.max_open) {
        range.max = kvarn_whole_bound(schema, "exclusiveMaximum");
    }
    return range;
}

// Decimals from low to high, both >= 0; an open end excludes the bound itself. Empty if there are none.
static std::string magnitudes(int64_t low, bool low_open, int64_t high, bool high_open,
                              const std::function<std::string(int64_t, int64_t)> & int_rule) {
    auto whole = [](int64_t n) { return "\"" + std::to_string(n) + "\" "; };

    std::vector<std::string> rules;
    int64_t first = low;
    if (low_open && low < high) {
        rules.push_back(whole(low) + POSITIVE_FRACTION);
        first = low + 1;
    }
    if (first < high) {
        rules.push_back("(" + int_rule(first, high == NO_END ? NO_END : high - 1) + ") " + ANY_FRACTION);
    }
    if (high != NO_END && !high_open && high >= first && (low < high || !low_open)) {
        rules.push_back(whole(high) + ZERO_FRACTION);
    }
    return string_join(rules, " | ");
}

std::string kvarn_number_rule(const kvarn_number_range & range, const std::function<std::string(int64_t, int64_t)> & int_rule) {
    std::vector<std::string> rules;
    if (!range.min || *range.min < 0) {
        const bool    below_zero = range.max && *range.max < 0;
        const int64_t low        = below_zero ? -*range.max : 0;
        // zero is written without a sign
        const std::string rule = magnitudes(low, below_zero ? range.max_open : true, range.min ? -*range.min : NO_END, range.min_open, int_rule);
        if (!rule.empty()) {
            rules.push_back("\"-\" (" + rule + ")");
        }
    }
    if (!range.max || *range.max >= 0) {
        const bool above_zero  = range.min && *range.min >= 0;
        const std::string rule = magnitudes(above_zero ? *range.min : 0, above_zero && range.min_open, range.max ? *range.max : NO_END, range.max_open, int_rule);
        if (!rule.empty()) {
            rules.push_back(rule);
        }
    }
    if (rules.empty()) {
        throw std::runtime_error("no number lies between the bounds");
    }
    return "(" + string_join(rules, " | ") + ")";
}
