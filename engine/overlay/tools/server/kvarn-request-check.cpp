#include "kvarn-request-check.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

static constexpr size_t MAX_WORDS = 300;
static constexpr int    MAX_DEPTH = 200;

[[noreturn]] static void refuse(const std::string & why) {
    throw std::invalid_argument(why);
}

std::string kvarn_shorten(const std::string & text, size_t n) {
    if (text.size() <= n) {
        return text;
    }
    while (n > 0 && ((unsigned char) text[n] & 0xC0) == 0x80) {
        n--;
    }
    return text.substr(0, n) + "...";
}

//
// what went wrong, in words
//

std::string kvarn_request_words(const std::string & what) {
    std::string words = what;
    const bool not_json = words.find("parse_error.101") != std::string::npos ||
                          words.find("out_of_range.406") != std::string::npos;
    if (words.find("attempting to parse an empty input") != std::string::npos) {
        return "The request body is empty; a JSON object is expected.";
    }
    for (size_t at; (at = words.find("[json.exception.")) != std::string::npos;) {
        const size_t end = words.find("] ", at);
        words.erase(at, end == std::string::npos ? std::string::npos : end + 2 - at);
    }
    // what follows these marks quotes the request
    for (const char * mark : { "; last read: ", "; tools = " }) {
        words = words.substr(0, words.find(mark));
    }
    return kvarn_shorten((not_json ? "The request body is not valid JSON: " : "") + words, MAX_WORDS);
}

void kvarn_check_nesting(const std::string & body) {
    int  depth  = 0;
    bool quoted = false;
    for (size_t i = 0; i < body.size(); i++) {
        const char c = body[i];
        if (c == '"') {
            quoted = !quoted;
        } else if (quoted) {
            i += c == '\\';
        } else if (c == '{' || c == '[') {
            if (++depth > MAX_DEPTH) {
                refuse("The request body is nested more than " + std::to_string(MAX_DEPTH) + " levels deep.");
            }
        } else if (c == '}' || c == ']') {
            depth--;
        }
    }
}

error_type kvarn_request_fault(const std::exception & e) {
    // 316 is met while writing an answer, not while reading a request
    const bool reading = dynamic_cast<const common_json_error *>(&e) != nullptr &&
                         std::string(e.what()).find("type_error.316") == std::string::npos;
    return reading ? ERROR_TYPE_INVALID_REQUEST : ERROR_TYPE_SERVER;
}

//
// values
//

static std::string format_bound(double bound) {
    char text[32];
    snprintf(text, sizeof(text), "%.10g", bound);
    return text;
}

static std::string format_range(double min, double max) {
    const bool has_min = min > -3e38;
    const bool has_max = max < 3e38;
    if (has_min && has_max) {
        return "between " + format_bound(min) + " and " + format_bound(max);
    }
    return has_min ? "at least " + format_bound(min) : "at most " + format_bound(max);
}

double kvarn_check_number(const json & value, bool whole, double min, double max) {
    if (!value.is_number()) {
        refuse("must be a number, but is " + kvarn_shorten(value.dump(), KVARN_QUOTE_BYTES));
    }
    const double number = value.get<double>();
    if (whole && std::trunc(number) != number) {
        refuse("must be a whole number, but is " + value.dump());
    }
    // an int64 limit rounds up to 2^63 as a double, which no int64 holds
    if (number < min || number > max || (whole && number >= 9223372036854775808.0)) {
        refuse("must be " + format_range(min, max) + ", but is " + value.dump());
    }
    if (!whole && !std::isfinite((float) number)) {
        refuse("is too large: " + value.dump());
    }
    return number;
}

void kvarn_check_stop(const json & stop) {
    if (stop.is_null()) {
        return;
    }
    if (!stop.is_string() && !stop.is_array()) {
        refuse("'stop' must be a string or a list of strings");
    }
    const json words = stop.is_array() ? stop : json::array({ stop });
    for (const auto & word : words) {
        if (!word.is_string()) {
            refuse("'stop' must hold strings only, but holds " + kvarn_shorten(word.dump(), KVARN_QUOTE_BYTES));
        }
        if (word.get<std::string>().empty()) {
            refuse("'stop' holds an empty string, which would end every answer before it begins; leave it out");
        }
    }
}

static void check_bias(const json & bias) {
    if (!bias.is_number() && !(bias.is_boolean() && !bias.get<bool>())) {
        refuse("a bias must be a number, or false to ban the token");
    }
}

static void check_token(double token, int n_vocab) {
    if (!(token >= 0 && token < n_vocab && std::trunc(token) == token)) {
        refuse("there is no token " + format_bound(token) + "; ids run from 0 to " + std::to_string(n_vocab - 1));
    }
}

void kvarn_check_logit_bias(const json & logit_bias, int n_vocab) {
    if (logit_bias.is_array()) {
        for (const auto & pair : logit_bias) {
            if (!pair.is_array() || pair.size() != 2 || !(pair[0].is_number() || pair[0].is_string())) {
                refuse("each entry must be a pair of a token and a bias");
            }
            if (pair[0].is_number()) {
                check_token(pair[0].get<double>(), n_vocab);
            }
            check_bias(pair[1]);
        }
    } else if (logit_bias.is_object()) {
        for (const auto & [token, bias] : logit_bias.items()) {
            char * end = nullptr;
            const double id = std::strtod(token.c_str(), &end);
            if (*end == 0 && !token.empty()) {
                check_token(id, n_vocab);
            }
            check_bias(bias);
        }
    } else {
        refuse("must be an object from token to bias, or a list of pairs");
    }
}
