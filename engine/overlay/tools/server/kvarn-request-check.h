#pragma once

// What a request may ask, said before anything acts on it. Everything here throws std::invalid_argument
// with one sentence a person can act on; the server answers it as 400. No request text beyond a short
// quote ever enters a message, so neither does it enter a log. Rules: engine/protocol/api.md.

#include "server-common.h"

#include <exception>
#include <limits>
#include <string>

// How much of a request an answer or a log may quote.
constexpr size_t KVARN_QUOTE_BYTES = 40;

// At most n bytes of text, never half a character.
std::string kvarn_shorten(const std::string & text, size_t n);

// The reason of a failed request in plain words: no library prefix, no dump of the request, at most one short paragraph.
std::string kvarn_request_words(const std::string & what);

// Refuse a body nested so deep that the recursion of readers and writers would run out of stack.
void kvarn_check_nesting(const std::string & body);

// 400 where the request itself is at fault (it is not JSON, or a field has the wrong type), else 500.
error_type kvarn_request_fault(const std::exception & e);

// A stop string, or a list of them. Empty ones would end every answer before it begins.
void kvarn_check_stop(const json & stop);

// [[token, bias], ...] or {token: bias, ...}; a token is an id below n_vocab or text, a bias is a number or false.
void kvarn_check_logit_bias(const json & logit_bias, int n_vocab);

// A JSON number within [min, max], `whole` if it may have no fraction.
double kvarn_check_number(const json & value, bool whole, double min, double max);

// One numeric field, in range or refused; never clamped, cut to fewer bits or rounded. -1 stands for "default" in an
// unsigned field (seed). `logprobs` alone may be a boolean, as in chat requests.
template <typename T>
T kvarn_number(const std::string & name, const json & value, T min, T max) {
    if (value.is_boolean() && name == "logprobs") {
        return value.get<bool>() ? T(1) : T(0);
    }
    constexpr bool whole = std::numeric_limits<T>::is_integer;
    constexpr bool is_unsigned = whole && !std::numeric_limits<T>::is_signed;
    const double low = is_unsigned && min == 0 ? -1.0 : (double) min;
    const double number = kvarn_check_number(value, whole, low, (double) max);
    if (is_unsigned && number == -1.0) {
        return max;
    }
    return whole && value.is_number_integer() ? (T) value.get<int64_t>() : (T) number;
}
