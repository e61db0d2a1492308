#include "kvarn-live-section.h"

#include "kvarn-checkpoint-metrics.h"
#include "kvarn-graph-report.h"
#include "kvarn-spec-metrics.h"

const std::vector<kvarn_live_section> & kvarn_live_sections() {
    static const std::vector<kvarn_live_section> sections = {
        { kvarn_checkpoints_add_live,   nullptr },
        { kvarn_device_graphs_add_live, nullptr },
        { kvarn_spec_add_live,          nullptr },
    };
    return sections;
}
