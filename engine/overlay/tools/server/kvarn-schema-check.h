#pragma once

// A JSON schema is either enforced whole or refused. Upstream's converter (common/json-schema.cpp, build_node) picks one
// branch for each node and passes over every other keyword in silence; this walks the same branches and names what
// would be passed over. Annotations (title, description, default, ...) are no rules and always pass.

#include "json.h"

#include <string>

// The schema in the form the converter reads: true becomes {}, an allOf of one becomes that one.
// Throws std::invalid_argument naming the first keyword that the grammar could not enforce, and where it stands.
// `format` values the grammar does not know are an annotation in JSON Schema: refused only where strict is asked for.
common_json kvarn_checked_schema(const common_json & schema, bool strict);
