#include "kvarn-spec-metrics.h"

#include "kvarn-spec-stats.h"

#include <sstream>

json kvarn_spec_facts() {
    const kvarn_spec_stats stats = kvarn_spec_stats_get();
    if (stats.kind.empty()) {
        return nullptr;
    }
    return {
        { "kind",      stats.kind },
        { "adaptive",  stats.adaptive },
        { "depth_max", stats.n_max },
    };
}

void kvarn_spec_add_live(json & root) {
    const kvarn_spec_stats stats = kvarn_spec_stats_get();
    if (stats.kind.empty()) {
        return;
    }
    json acceptance = json::array();
    for (int i = 0; i < stats.n_max; ++i) {
        acceptance.push_back(stats.tried[i] > 0 ? json((double) stats.accepted[i] / stats.tried[i]) : json(nullptr));
    }
    json step_ms = json::array();
    for (int i = 0; i <= stats.n_max; ++i) {
        step_ms.push_back(stats.steps[i] > 0 ? json(stats.step_us[i]/1e3/stats.steps[i]) : json(nullptr));
    }
    root["speculation"] = {
        { "kind",       stats.kind },
        { "adaptive",   stats.adaptive },
        { "depth",      stats.depth },
        { "depth_max",  stats.n_max },
        { "drafts",     stats.n_drafts },
        { "drafted",    stats.n_drafted },
        { "accepted",   stats.n_accepted },
        { "acceptance", acceptance },
        { "step_ms",    step_ms },
    };
}

static void describe(std::ostringstream & out, const char * name, const char * type, const char * help) {
    out << "# HELP kvarn:" << name << " " << help << "\n# TYPE kvarn:" << name << " " << type << "\n";
}

std::string kvarn_spec_metrics_text() {
    const kvarn_spec_stats stats = kvarn_spec_stats_get();
    if (stats.kind.empty()) {
        return "";
    }

    std::ostringstream out;

    describe(out, "spec_depth", "gauge", "Tokens to draft in the step begun last");
    out << "kvarn:spec_depth{kind=\"" << stats.kind << "\",adaptive=\"" << stats.adaptive << "\"} " << stats.depth << "\n";

    describe(out, "spec_drafts_total", "counter", "Drafts verified");
    out << "kvarn:spec_drafts_total " << stats.n_drafts << "\n";
    describe(out, "spec_drafted_total", "counter", "Tokens drafted and verified");
    out << "kvarn:spec_drafted_total " << stats.n_drafted << "\n";
    describe(out, "spec_accepted_total", "counter", "Drafted tokens accepted");
    out << "kvarn:spec_accepted_total " << stats.n_accepted << "\n";

    const auto series = [&out](const char * name, const char * label, int i, double value) {
        out << "kvarn:" << name << "{" << label << "=\"" << i << "\"} " << value << "\n";
    };
    out.precision(15);

    describe(out, "spec_tried_total", "counter", "Drafts whose tokens before this position were all accepted");
    for (int i = 0; i < stats.n_max; ++i) {
        series("spec_tried_total", "position", i + 1, (double) stats.tried[i]);
    }
    describe(out, "spec_accepted_at_total", "counter", "Drafts whose token at this position was accepted");
    for (int i = 0; i < stats.n_max; ++i) {
        series("spec_accepted_at_total", "position", i + 1, (double) stats.accepted[i]);
    }
    describe(out, "spec_steps_total", "counter", "Timed decode steps without prompt tokens, by draft length");
    for (int i = 0; i <= stats.n_max; ++i) {
        series("spec_steps_total", "draft", i, (double) stats.steps[i]);
    }
    describe(out, "spec_step_seconds_total", "counter", "Their time, draft to sample");
    for (int i = 0; i <= stats.n_max; ++i) {
        series("spec_step_seconds_total", "draft", i, stats.step_us[i]/1e6);
    }
    return out.str();
}
