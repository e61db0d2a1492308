#pragma once

#include <string>

// Why the grammar cannot express this JSON schema `pattern`, or "" when it can.
std::string kvarn_pattern_problem(const std::string & pattern);
