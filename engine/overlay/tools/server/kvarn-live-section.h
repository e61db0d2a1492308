#pragma once

// A part of GET /live and GET /metrics whose figures any thread may read at any time, from atomics of its own.
// To add one: a file with these functions, and a line in kvarn-live-sections.cpp. Names are defined in engine/protocol/live.md.

#include "server-common.h"

#include <iosfwd>
#include <vector>

struct kvarn_live_section {
    void (*add_json)   (json & root);         // puts its object where the protocol says, or nothing while it has none
    void (*add_metrics)(std::ostream & out);  // in Prometheus text format; NULL when it prints them elsewhere
};

const std::vector<kvarn_live_section> & kvarn_live_sections();
