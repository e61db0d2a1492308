#pragma once

#include <string>

// A chat template for requests with tools, for a model whose own template speaks ChatML and knows no tools; else "".
// Without it the tools of a request would be passed over in silence. Requests without tools keep the model's own template.
std::string kvarn_tool_template(const std::string & own_template);
