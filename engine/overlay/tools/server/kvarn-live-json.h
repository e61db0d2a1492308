#pragma once

#include "kvarn-live.h"
#include "kvarn-live-memory.h"

#include "server-common.h"

// The object of GET /live (engine/protocol/live.md).
//   seq: number of this answer, larger than that of every answer before it
json kvarn_live_to_json(const kvarn_live_reading & reading, const kvarn_live_memory & memory, uint64_t seq);

// Our part of GET /metrics with the same figures, as counters that never fall and gauges. Empty while there is no engine.
std::string kvarn_live_metrics_text();
