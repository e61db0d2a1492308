#pragma once

#include "server-common.h"

#include <string>

// How the server speculates: {kind, adaptive, depth_max}; null when it does not.
json kvarn_spec_facts();

// What came of it (common/kvarn-spec-stats.h) as Prometheus text; empty without speculation.
std::string kvarn_spec_metrics_text();
