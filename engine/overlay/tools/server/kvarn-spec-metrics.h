#pragma once

#include "server-common.h"

#include <string>

// How the server speculates: {kind, adaptive, depth_max}; null when it does not.
json kvarn_spec_facts();

// ... and what came of it so far (common/kvarn-spec-stats.h): puts {kind, depth, adaptive, drafted, accepted, acceptance} at
// root["speculation"], or nothing. acceptance[i]: share of the drafts that reached token i in which it was right; null where
// none did. Any thread, any time.
void kvarn_spec_add_live(json & root);

// The same, and the times, as Prometheus text; empty without speculation.
std::string kvarn_spec_metrics_text();
