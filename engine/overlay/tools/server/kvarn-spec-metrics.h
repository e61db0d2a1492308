#pragma once

#include "server-common.h"

#include <string>

// How the server speculates: {kind, adaptive, depth_max}; null when it does not.
json kvarn_spec_facts();

// ... and what came of it so far, at root["speculation"] of GET /live (engine/protocol/live.md); nothing without speculation.
// Any thread, any time.
void kvarn_spec_add_live(json & root);

// The same, and the times, as Prometheus text; empty without speculation.
std::string kvarn_spec_metrics_text();
