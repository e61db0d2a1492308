#include "kvarn-live-json.h"

#include "kvarn-live-section.h"

#include <algorithm>
#include <limits>
#include <sstream>

namespace {

// Prometheus text format 0.0.4
class exposition {
public:
    exposition() { out.precision(std::numeric_limits<double>::max_digits10); }

    void describe(const char * name, const char * type, const char * help) {
        out << "# HELP kvarn:" << name << " " << help << "\n# TYPE kvarn:" << name << " " << type << "\n";
    }

    template <typename T>
    void sample(const char * name, const std::string & labels, T value) {
        out << "kvarn:" << name << labels << " " << value << "\n";
    }

    template <typename T>
    void single(const char * name, const char * type, const char * help, T value) {
        describe(name, type, help);
        sample(name, "", value);
    }

    std::ostringstream out;
};

// names of devices and buffer types come from drivers
std::string quoted(const std::string & text) {
    std::string result = "\"";
    for (char c : text) {
        if (c == '\\' || c == '"') {
            result += '\\';
        }
        result += c == '\n' ? ' ' : c;
    }
    return result + "\"";
}

void add_totals(exposition & to, const kvarn_live_engine & engine) {
    to.single("prompt_tokens_total",        "counter", "Prompt tokens computed, counted as they are",           engine.n_prompt);
    to.single("prompt_cached_tokens_total", "counter", "Prompt tokens taken from the cache",                    engine.n_cached);
    to.single("generated_tokens_total",     "counter", "Tokens generated, counted as they are",                 engine.n_generated);
    to.single("prompt_seconds_total",       "counter", "Time spent on prompts",                                 engine.t_prompt_us/1e6);
    to.single("generated_seconds_total",    "counter", "Time from first to last token, summed over slots",      engine.t_generated_us/1e6);
    to.single("drafted_tokens_total",       "counter", "Tokens drafted by speculation",                         engine.n_drafted);
    to.single("draft_accepted_tokens_total","counter", "Drafted tokens the model accepted",                     engine.n_draft_accepted);
    to.single("ubatches_total",             "counter", "Ubatches computed",                                     engine.n_ubatches);
    to.single("steps_total",                "counter", "Decode calls",                                          engine.n_steps);

    to.describe("step_seconds_total", "counter", "Time of the steps by part");
    to.sample("step_seconds_total", "{part=\"decode\"}",   engine.t_decode_us/1e6);
    to.sample("step_seconds_total", "{part=\"sampling\"}", engine.t_sampling_us/1e6);
    to.sample("step_seconds_total", "{part=\"other\"}",    engine.t_other_us/1e6);
}

void add_caches(exposition & to, const kvarn_live_engine & engine, const kvarn_live_memory & memory) {
    const size_t n = std::min(memory.caches.size(), KVARN_LIVE_MAX_CACHES);
    const auto labels = [&](size_t i) {
        return "{context=" + quoted(memory.caches[i].context) + ",kind=" + quoted(memory.caches[i].kind) + "}";
    };
    to.describe("kv_cells", "gauge", "Cells of a cache");
    for (size_t i = 0; i < n; ++i) {
        to.sample("kv_cells", labels(i), memory.caches[i].n_cells);
    }
    to.describe("kv_cells_used", "gauge", "Cells of a cache that hold a token");
    for (size_t i = 0; i < n; ++i) {
        to.sample("kv_cells_used", labels(i), engine.n_cells_used[i]);
    }
    to.describe("kv_bytes", "gauge", "Bytes of a cache as allocated");
    for (size_t i = 0; i < n; ++i) {
        to.sample("kv_bytes", labels(i), memory.caches[i].k_bytes + memory.caches[i].v_bytes);
    }
}

void add_memory(exposition & to, const kvarn_live_memory & memory) {
    to.describe("memory_bytes", "gauge", "Bytes allocated by context, buffer type and purpose");
    for (const auto & buffer : memory.buffers) {
        const std::string labels = "{context=" + quoted(buffer.context) + ",buffer=" + quoted(buffer.name) + ",purpose=";
        to.sample("memory_bytes", labels + "\"model\"}",   buffer.model_bytes);
        to.sample("memory_bytes", labels + "\"context\"}", buffer.context_bytes);
        to.sample("memory_bytes", labels + "\"compute\"}", buffer.compute_bytes);
    }
}

} // namespace

std::string kvarn_live_metrics_text() {
    kvarn_live_reading reading;
    if (!kvarn_live_read(reading)) {
        return "";
    }
    const kvarn_live_memory memory = kvarn_live_memory_read();

    exposition to;
    add_totals(to, reading.engine);
    add_caches(to, reading.engine, memory);
    add_memory(to, memory);
    if (reading.engine.has_prompt_cache) {
        to.single("prompt_cache_entries", "gauge", "Conversations kept in the prompt cache", reading.engine.n_cache_entries);
        to.single("prompt_cache_bytes",   "gauge", "Bytes of the prompt cache",              reading.engine.cache_bytes);
    }
    for (const auto & section : kvarn_live_sections()) {
        if (section.add_metrics) {
            section.add_metrics(to.out);
        }
    }
    return to.out.str();
}
