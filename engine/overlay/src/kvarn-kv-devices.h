#pragma once

// A cache is only good on a device that also computes attention over its types: otherwise each step would move the whole cache to
// the CPU. Asked when the context is made, of the device of each layer, with tensors of the model's own head sizes.

#include "llama.h"

#include <string>

// What is wrong as a sentence, empty when nothing is. The types are those that the cache will have.
std::string kvarn_attention_problem(const llama_model & model, const llama_context_params & params);
