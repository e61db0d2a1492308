#include "kvarn-metrics.h"

#include "kvarn-checkpoint-metrics.h"
#include "kvarn-graph-report.h"
#include "kvarn-live-json.h"
#include "kvarn-spec-metrics.h"

#include "../../src/kvarn-graph-stats.h"

#include <sstream>

std::string kvarn_metrics_text() {
    kvarn_graph_stats stats;
    kvarn_graph_stats_get(&stats);

    std::ostringstream out;

    const auto describe = [&out](const char * name, const char * help) {
        out << "# HELP kvarn:" << name << " " << help << "\n"
            << "# TYPE kvarn:" << name << " counter\n";
    };

    describe("graph_built_total", "Compute graphs built, one for each ubatch that could not reuse the previous graph");
    out << "kvarn:graph_built_total " << stats.n_built << "\n";

    describe("graph_reused_total", "Ubatches computed with the previous graph");
    out << "kvarn:graph_reused_total " << stats.n_reused << "\n";

    // every reason is always there, so that a rate never starts from a missing series
    describe("graph_rebuild_total", "Compute graphs built, by the first reason found");
    for (int i = 0; i < KVARN_GRAPH_REASON_COUNT; ++i) {
        out << "kvarn:graph_rebuild_total{reason=\"" << kvarn_graph_reason_name(i) << "\"} " << stats.n_rebuilt[i] << "\n";
    }

    out << kvarn_device_graphs_text(kvarn_device_graphs_get());
    out << kvarn_checkpoint_metrics_text();
    out << kvarn_spec_metrics_text();
    out << kvarn_live_metrics_text();

    return out.str();
}
