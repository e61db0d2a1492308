#pragma once

#include "server-common.h"

// Check a chat request and bring it into the one form upstream reads: a named tool_choice becomes that one tool and
// "required", a schema given directly in response_format moves to where the schema is looked for.
// Throws std::invalid_argument with one sentence that names the place, such as messages[1].content[0].
void kvarn_check_chat_request(json & body, const server_chat_params & opt);
