#pragma once

#include "server-common.h"

#include "../../src/kvarn-device-graphs.h"

// The graph counters of GPUs, as /metrics prints them: empty text where no device has any.
std::string kvarn_device_graphs_text(const std::vector<kvarn_device_graphs> & devices);

// The same numbers, one object for each device, as in GET /live.
json kvarn_device_graphs_json(const std::vector<kvarn_device_graphs> & devices);

// Puts them at root["graphs"]["cuda"], or nothing where no device has any.
void kvarn_device_graphs_add_live(json & root);
