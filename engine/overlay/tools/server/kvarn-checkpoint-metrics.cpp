#include "kvarn-checkpoint-metrics.h"

#include "kvarn-checkpoint-stats.h"

#include <sstream>

std::string kvarn_checkpoint_metrics_text() {
    const kvarn_checkpoint_stats stats = kvarn_checkpoint_stats_get();

    std::ostringstream out;

    const auto line = [&out](const char * name, const char * type, const char * help, uint64_t value) {
        out << "# HELP kvarn:" << name << " " << help << "\n"
            << "# TYPE kvarn:" << name << " " << type << "\n"
            << "kvarn:" << name << " " << value << "\n";
    };

    line("checkpoint_count",          "gauge",   "Context checkpoints held by slots and the prompt cache", stats.count);
    line("checkpoint_bytes",          "gauge",   "Host memory of the context checkpoints in bytes", stats.bytes);
    line("checkpoint_budget_bytes",   "gauge",   "Host memory they may take in bytes, 0 without checkpoints", stats.budget_bytes);
    line("checkpoint_staging_bytes",  "gauge",   "Pinned memory that moves them from a device, in bytes", stats.staging_bytes);
    line("checkpoint_saved_total",    "counter", "Context checkpoints taken", stats.saved);
    line("checkpoint_restored_total", "counter", "Context checkpoints restored", stats.restored);
    line("checkpoint_evicted_total",  "counter", "Context checkpoints dropped to make room for others", stats.evicted);
    line("checkpoint_declined_total", "counter", "Context checkpoints not taken for want of room or value", stats.declined);

    return out.str();
}

void kvarn_checkpoints_add_live(json & root) {
    const kvarn_checkpoint_stats stats = kvarn_checkpoint_stats_get();

    root["checkpoints"] = {
        { "count",         stats.count },
        { "bytes",         stats.bytes },
        { "budget_bytes",  stats.budget_bytes },
        { "staging_bytes", stats.staging_bytes },
        { "saved",         stats.saved },
        { "restored",      stats.restored },
        { "evicted",       stats.evicted },
        { "declined",      stats.declined },
    };
}
