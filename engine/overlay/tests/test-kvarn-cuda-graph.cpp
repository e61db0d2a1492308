// The counting of CUDA graphs without a GPU: a backend that only decides, by the same rules as ggml_backend_cuda_graph_compute(),
// reports its events; what is counted must follow from what it was given to compute.

#include "test-kvarn-expect.h"
#include "kvarn-graph-report.h"
#include "kvarn-kv-pad.h"

#include <cstdint>
#include <cstdio>
#include <map>
#include <string>

#define EXPECT_EQ(a, b) EXPECT((uint64_t) (a) == (uint64_t) (b), "%llu, not %llu", (unsigned long long) (a), (unsigned long long) (b))

static kvarn_cuda_graph_stats stats_of(int device) {
    kvarn_cuda_graph_stats stats = {};
    stats.size = sizeof(stats);
    EXPECT(kvarn_cuda_graph_stats_get(device, &stats), "device %d", device);
    return stats;
}

static uint64_t eager_of(const kvarn_cuda_graph_stats & stats) {
    uint64_t n = 0;
    for (const uint64_t n_reason : stats.n_eager) {
        n += n_reason;
    }
    return n;
}

// what the backend keeps for each key
struct graph {
    uint64_t shape        = 0; // 0: not known
    bool     is_warm      = false;
    bool     has_instance = false;
};

struct backend {
    std::map<int, graph>   graphs; // by key
    kvarn_cuda_graph_meter meter;
    int64_t                now_us           = 1000;
    bool                   is_on            = true;
    bool                   is_old_gpu       = false;
    bool                   is_compatible    = true;
    bool                   fails_to_update  = false;
    uint64_t               n_computed       = 0;

    explicit backend(int device) : meter(device) {}

    int64_t after(int64_t us) {
        return now_us += us;
    }

    // a capture takes 300 us, an instantiation 70, an update 10
    void capture(graph & g) {
        kvarn_cuda_graph_on_captured(meter, after(300));
        if (!g.has_instance) {
            kvarn_cuda_graph_on_instantiated(meter, after(70));
        }
        kvarn_cuda_graph_on_updated(meter, !fails_to_update, after(10));
        if (fails_to_update) {
            kvarn_cuda_graph_on_instantiated(meter, after(70));
        }
        g.has_instance = true;
    }

    void compute(int key, uint64_t shape) {
        graph & g = graphs[key];

        kvarn_cuda_graph_step step = { is_on && !is_old_gpu, is_old_gpu, g.shape != 0, g.is_warm, false };
        bool is_graph   = false;
        bool is_capture = false;
        if (step.is_on) {
            step.is_compatible = is_compatible;
            if (is_compatible) {
                const bool is_changed = g.shape != shape;
                g.shape = shape;

                is_graph   = !is_changed;
                is_capture = is_graph && (!g.is_warm || !g.has_instance);
                g.is_warm  = is_graph;
            }
        }

        ++n_computed;
        kvarn_cuda_graph_on_compute(meter, step, is_graph, is_capture, now_us);
        if (is_capture) {
            capture(g);
        }
        after(1000);
    }

    void evict(int key) {
        kvarn_cuda_graph_on_evicted(meter, graphs[key].has_instance);
        graphs.erase(key);
    }
};

static void expect_sums(const kvarn_cuda_graph_stats & s, uint64_t n_computed) {
    EXPECT_EQ(s.n_replays + s.n_captures + eager_of(s), n_computed);
    EXPECT_EQ(s.n_updates + s.n_update_failures, s.n_captures);
}

// decoding token by token, the shape of the graph being the cells it spans
static void test_decode(int device, uint16_t pad, uint32_t n_tokens, uint64_t n_shapes) {
    backend b(device);
    kvarn_kv_pad kv_pad;
    kv_pad.pad = pad;
    for (uint32_t n = 1; n <= n_tokens; ++n) {
        b.compute(7, kv_pad.n_kv(0, n, 1, 1u << 20));
    }

    const auto s = stats_of(device);
    expect_sums(s, n_tokens);
    EXPECT_EQ(s.n_captures, n_shapes);
    EXPECT_EQ(s.n_eager[KVARN_CUDA_GRAPH_EAGER_FIRST],   1);
    EXPECT_EQ(s.n_eager[KVARN_CUDA_GRAPH_EAGER_CHANGED], n_shapes - 1);
    EXPECT_EQ(eager_of(s), n_shapes);
    EXPECT_EQ(s.n_replays, n_tokens - 2*n_shapes);
    EXPECT_EQ(s.n_instantiations, 1);
    EXPECT_EQ(s.n_live, 1);
    EXPECT_EQ(s.t_capture_us,     300*n_shapes);
    EXPECT_EQ(s.t_instantiate_us, 70);
    EXPECT_EQ(s.t_update_us,      10*n_shapes);
}

// drafts of changing length share a key: never twice the same shape, never a capture
static void test_churn(int device) {
    backend b(device);
    for (int i = 0; i < 100; ++i) {
        b.compute(1, 1 + i % 2);
    }
    const auto s = stats_of(device);
    expect_sums(s, b.n_computed);
    EXPECT_EQ(s.n_captures, 0);
    EXPECT_EQ(s.n_eager[KVARN_CUDA_GRAPH_EAGER_UNSETTLED], 99);
    EXPECT_EQ(s.n_live, 0);
}

static void test_reasons(int device) {
    backend b(device);
    b.is_on = false;
    b.compute(1, 5);
    b.is_old_gpu = true;
    b.compute(1, 5);
    b.is_on      = true;
    b.is_old_gpu = false;
    b.is_compatible = false;
    b.compute(1, 5);
    b.compute(1, 5);

    const auto s = stats_of(device);
    expect_sums(s, 4);
    EXPECT_EQ(s.n_eager[KVARN_CUDA_GRAPH_EAGER_OFF],          1);
    EXPECT_EQ(s.n_eager[KVARN_CUDA_GRAPH_EAGER_OLD_GPU],      1);
    EXPECT_EQ(s.n_eager[KVARN_CUDA_GRAPH_EAGER_INCOMPATIBLE], 2);
}

static void test_life(int device) {
    {
        backend b(device);
        for (int key = 0; key < 3; ++key) {
            b.compute(key, 9);
            b.compute(key, 9);
        }
        b.compute(3, 9); // known, never captured
        EXPECT_EQ(stats_of(device).n_live, 3);

        b.evict(0);
        b.evict(3);
        EXPECT_EQ(stats_of(device).n_live, 2);
        EXPECT_EQ(stats_of(device).n_evictions, 2);

        // an evicted graph begins again
        b.compute(0, 9);
        b.compute(0, 9);
        EXPECT_EQ(stats_of(device).n_eager[KVARN_CUDA_GRAPH_EAGER_FIRST], 5);
        EXPECT_EQ(stats_of(device).n_live, 3);

        // an update that is refused makes the executable anew
        b.fails_to_update = true;
        b.compute(0, 10);
        b.compute(0, 10);
        EXPECT_EQ(stats_of(device).n_update_failures, 1);
        EXPECT_EQ(stats_of(device).n_instantiations, 5);
        EXPECT_EQ(stats_of(device).n_live, 3);
        expect_sums(stats_of(device), b.n_computed);
    }
    // totals outlive the backend, what it held does not
    EXPECT_EQ(stats_of(device).n_live, 0);
    EXPECT_EQ(stats_of(device).n_captures, 5);
}

static void test_reading() {
    kvarn_cuda_graph_stats stats = {};
    stats.size = 4;
    EXPECT(!kvarn_cuda_graph_stats_get(0, &stats), "no room");
    stats.size = sizeof(stats);
    EXPECT(!kvarn_cuda_graph_stats_get(-1,   &stats), "no such device");
    EXPECT(!kvarn_cuda_graph_stats_get(1000, &stats), "no such device");

    // a reader made for fewer members gets these and no more
    stats.n_captures = 77;
    stats.size = offsetof(kvarn_cuda_graph_stats, n_captures);
    EXPECT(kvarn_cuda_graph_stats_get(0, &stats), "short");
    EXPECT_EQ(stats.n_captures, 77);
    EXPECT_EQ(stats.size, offsetof(kvarn_cuda_graph_stats, n_captures));

    EXPECT(kvarn_cuda_graph_eager_name(KVARN_CUDA_GRAPH_EAGER_COUNT) == nullptr, "no such reason");
    EXPECT(kvarn_cuda_graph_eager_name(-1) == nullptr, "no such reason");
}

// the numbers leave the server under their names, for every device; without one nothing is said
static void test_report() {
    const std::vector<kvarn_device_graphs> devices = { { "CUDA0", stats_of(0) }, { "CUDA1", stats_of(5) } };

    const std::string text = kvarn_device_graphs_text(devices);
    for (const char * line : {
            "kvarn:cuda_graph_captures_total{device=\"CUDA0\"} 1024\n",
            "kvarn:cuda_graph_captures_total{device=\"CUDA1\"} 5\n",
            "kvarn:cuda_graph_replays_total{device=\"CUDA0\"} 260096\n",
            "kvarn:cuda_graph_live{device=\"CUDA1\"} 0\n",
            "kvarn:cuda_graph_capture_us_total{device=\"CUDA0\"} 307200\n",
            "kvarn:cuda_graph_eager_total{device=\"CUDA0\",reason=\"changed\"} 1023\n",
            "# TYPE kvarn:cuda_graph_live gauge\n",
            "# TYPE kvarn:cuda_graph_eager_total counter\n" }) {
        EXPECT(text.find(line) != std::string::npos, "no %s", line);
    }

    const json report = kvarn_device_graphs_json(devices);
    EXPECT(report[0]["device"] == "CUDA0" && report[0]["captures"] == 1024 && report[0]["eager"]["changed"] == 1023, "%s", report.dump().c_str());
    EXPECT(report[1]["evictions"] == 2 && report[1]["eager"].size() == KVARN_CUDA_GRAPH_EAGER_COUNT, "%s", report.dump().c_str());

    EXPECT(kvarn_device_graphs_text({}).empty() && kvarn_device_graphs_json({}).empty(), "something said about nothing");
}

int main() {
    test_decode(0, 256,                262144, 1024);
    test_decode(1, 4096,               262144,   64);
    test_decode(2, KVARN_KV_PAD_AUTO,  262144,   64);
    test_churn(3);
    test_reasons(4);
    test_life(5);
    test_reading();
    test_report();

    printf("%s: %d rules broken\n", n_broken ? "FAIL" : "OK", n_broken);
    return n_broken ? 1 : 0;
}
