#pragma once

#include <string>

// Our part of GET /metrics, in Prometheus text format 0.0.4. Reads process-wide counters and the published
// live state only: no task is posted.
std::string kvarn_metrics_text();
