#include "kvarn-graph-report.h"

#include <cstring>
#include <sstream>

using stats_t = kvarn_cuda_graph_stats;

struct member {
    const char * name; // of the JSON member; the metric is kvarn:cuda_graph_<name>
    const char * type;
    const char * help;
    uint64_t stats_t::* value;
};

static const member members[] = {
    { "replays",         "counter", "Graph launches without a capture",                                   &stats_t::n_replays         },
    { "captures",        "counter", "Graphs captured, each followed by a launch",                         &stats_t::n_captures        },
    { "instantiations",  "counter", "Executables made from a captured graph",                             &stats_t::n_instantiations  },
    { "updates",         "counter", "Executables brought up to date with a captured graph",               &stats_t::n_updates         },
    { "update_failures", "counter", "Updates that were refused; the executable was made anew",            &stats_t::n_update_failures },
    { "evictions",       "counter", "Graphs dropped after 10 seconds without use",                        &stats_t::n_evictions       },
    { "live",            "gauge",   "Executables held now",                                               &stats_t::n_live            },
    { "capture_us",      "counter", "Host time spent in captures, in microseconds",                       &stats_t::t_capture_us      },
    { "instantiate_us",  "counter", "Host time spent in instantiations, in microseconds",                 &stats_t::t_instantiate_us  },
    { "update_us",       "counter", "Host time spent in updates, in microseconds",                        &stats_t::t_update_us       },
};

static std::string metric_of(const member & m) {
    return std::string("cuda_graph_") + m.name + (strcmp(m.type, "counter") == 0 ? "_total" : "");
}

std::string kvarn_device_graphs_text(const std::vector<kvarn_device_graphs> & devices) {
    if (devices.empty()) {
        return "";
    }

    std::ostringstream out;

    const auto describe = [&out](const std::string & name, const char * type, const char * help) {
        out << "# HELP kvarn:" << name << " " << help << "\n"
            << "# TYPE kvarn:" << name << " " << type << "\n";
    };

    for (const member & m : members) {
        describe(metric_of(m), m.type, m.help);
        for (const auto & d : devices) {
            out << "kvarn:" << metric_of(m) << "{device=\"" << d.device << "\"} " << d.stats.*m.value << "\n";
        }
    }

    describe("cuda_graph_eager_total", "counter", "Graphs run without a CUDA graph, by the first reason found");
    for (const auto & d : devices) {
        for (int i = 0; i < KVARN_CUDA_GRAPH_EAGER_COUNT; ++i) {
            out << "kvarn:cuda_graph_eager_total{device=\"" << d.device << "\",reason=\"" << kvarn_cuda_graph_eager_name(i) << "\"} "
                << d.stats.n_eager[i] << "\n";
        }
    }

    return out.str();
}

json kvarn_device_graphs_json(const std::vector<kvarn_device_graphs> & devices) {
    json res = json::array();
    for (const auto & d : devices) {
        json one = { { "device", d.device } };
        for (const member & m : members) {
            const std::string name = m.name;
            if (name.size() > 3 && name.compare(name.size() - 3, 3, "_us") == 0) {
                one[name.substr(0, name.size() - 3) + "_ms_total"] = d.stats.*m.value / 1e3;
            } else {
                one[name] = d.stats.*m.value;
            }
        }
        for (int i = 0; i < KVARN_CUDA_GRAPH_EAGER_COUNT; ++i) {
            one["eager"][kvarn_cuda_graph_eager_name(i)] = d.stats.n_eager[i];
        }
        res.push_back(std::move(one));
    }
    return res;
}

void kvarn_device_graphs_add_live(json & root) {
    json devices = kvarn_device_graphs_json(kvarn_device_graphs_get());
    if (!devices.empty()) {
        root["graphs"]["cuda"] = std::move(devices);
    }
}
