#pragma once

#include <string>

// The context checkpoints in Prometheus text format 0.0.4. Reads process-wide counters only.
std::string kvarn_checkpoint_metrics_text();
