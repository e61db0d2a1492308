#pragma once

#include "server-common.h"

#include <string>

// The context checkpoints in Prometheus text format 0.0.4. Reads process-wide counters only.
std::string kvarn_checkpoint_metrics_text();

// The same at root["checkpoints"] of GET /live; count and bytes replace sums over slots, which share checkpoints.
void kvarn_checkpoints_add_live(json & root);
