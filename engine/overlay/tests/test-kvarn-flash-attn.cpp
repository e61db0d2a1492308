// Flash attention: our tiled kernels against upstream's one-row-at-a-time reference, over few query rows and over odd shapes.
// Prints one line per failed case and a summary; exit code 1 when any case failed. With an argument N, of those only every N-th;
// the number of rows from which kernels are chosen is run through in full.

#include "test-kvarn-vectors.h"

#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

enum class masking { NONE, CAUSAL, WINDOW, HOLES };

struct shape {
    ggml_type type_k, type_v;
    int64_t dk, dv;
    int64_t kv_heads, group;
    int64_t n_queries, n_kv, n_streams;
    masking mask;
    float   max_bias, softcap;
    bool    sinks;
    int     n_threads;

    std::string text() const {
        static const char * masks[] = { "none", "causal", "window", "holes" };
        char line[256];
        snprintf(line, sizeof(line), "K=%s V=%s dk=%d dv=%d heads=%dx%d queries=%d kv=%d streams=%d mask=%s bias=%g softcap=%g sinks=%d threads=%d",
            ggml_type_name(type_k), ggml_type_name(type_v), (int) dk, (int) dv, (int) kv_heads, (int) group, (int) n_queries, (int) n_kv,
            (int) n_streams, masks[(int) mask], max_bias, softcap, sinks, n_threads);
        return line;
    }
};

void fill(ggml_tensor * t, uint32_t seed) {
    const std::vector<float> x = gaussian(ggml_nelements(t), seed);
    if (t->type == GGML_TYPE_F32) {
        memcpy(t->data, x.data(), x.size()*sizeof(float));
    } else {
        ggml_quantize_chunk(t->type, x.data(), t->data, 0, ggml_nrows(t), t->ne[0], nullptr);
    }
}

bool is_visible(const shape & s, int64_t query, int64_t key, int64_t stream) {
    const int64_t position = s.n_kv - s.n_queries + query;  // the queries are the last positions
    switch (s.mask) {
        case masking::NONE:   return true;
        case masking::CAUSAL: return key <= position;
        case masking::WINDOW: return key <= position && key + 100 > position;
        case masking::HOLES:  return (key*7 + query*3 + stream) % 5 != 0;
    }
    return true;
}

void fill_mask(const shape & s, ggml_tensor * mask) {
    ggml_fp16_t * m = (ggml_fp16_t *) mask->data;
    for (int64_t stream = 0; stream < s.n_streams; stream++) {
        for (int64_t query = 0; query < s.n_queries; query++) {
            for (int64_t key = 0; key < s.n_kv; key++) {
                const float distance = s.max_bias > 0.0f ? -(float) std::llabs(s.n_kv - s.n_queries + query - key) : 0.0f;
                *m++ = ggml_fp32_to_fp16(is_visible(s, query, key, stream) ? distance : -INFINITY);
            }
        }
    }
}

struct problem {
    ggml_context * ctx;
    ggml_cgraph  * graph;
    ggml_tensor  * result;

    explicit problem(const shape & s) {
        ctx = ggml_init({ 256u*1024*1024, nullptr, false });
        // A cache holds the heads of a position side by side, so rows of one head are a stride apart.
        const auto cache = [&](ggml_type type, int64_t d, uint32_t seed) {
            ggml_tensor * t = ggml_new_tensor_4d(ctx, type, d, s.kv_heads, s.n_kv, s.n_streams);
            fill(t, seed);
            return ggml_permute(ctx, t, 0, 2, 1, 3);
        };
        ggml_tensor * q = ggml_new_tensor_4d(ctx, GGML_TYPE_F32, s.dk, s.kv_heads*s.group, s.n_queries, s.n_streams);
        fill(q, 1);
        ggml_tensor * mask = nullptr;
        if (s.mask != masking::NONE) {
            mask = ggml_new_tensor_4d(ctx, GGML_TYPE_F16, s.n_kv, s.n_queries, 1, s.n_streams);
            fill_mask(s, mask);
        }
        ggml_tensor * k = cache(s.type_k, s.dk, 2);
        ggml_tensor * v = cache(s.type_v, s.dv, 3);
        result = ggml_flash_attn_ext(ctx, ggml_permute(ctx, q, 0, 2, 1, 3), k, v, mask, 1.0f/sqrtf((float) s.dk), s.max_bias, s.softcap);
        if (s.sinks) {
            ggml_tensor * sinks = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, s.kv_heads*s.group);
            fill(sinks, 4);
            ggml_flash_attn_ext_add_sinks(result, sinks);
        }
        graph = ggml_new_graph(ctx);
        ggml_build_forward_expand(graph, result);
    }

    ~problem() { ggml_free(ctx); }

    std::vector<float> run(ggml_backend_t backend, int n_threads, bool reference) const {
        ggml_backend_cpu_set_n_threads(backend, n_threads);
        ggml_backend_cpu_set_use_ref(backend, reference);
        memset(result->data, 0xFF, ggml_nbytes(result));  // NaN: a row nobody wrote must show
        ggml_backend_graph_compute(backend, graph);
        const float * y = (const float *) result->data;
        return std::vector<float>(y, y + ggml_nelements(result));
    }
};

// The bound of test-backend-ops, for it allows other roundings than the reference's.
constexpr double LOOSE = 5e-4;

// Few rows round their queries as the reference does: what is left is the order of the sums, of f16 where the values are f16.
double bound_of_few(const shape & s) {
    return s.n_queries*s.group >= 8 ? LOOSE : s.type_v == GGML_TYPE_F16 ? 1e-5 : 1e-9;
}

bool check(ggml_backend_t backend, const shape & s, double bound) {
    const problem p(s);
    const std::vector<float> reference = p.run(backend, 1, true);
    const std::vector<float> ours      = p.run(backend, s.n_threads, false);
    const std::vector<float> again     = p.run(backend, s.n_threads, false);
    const double error   = relative_error(reference, ours);
    const bool   is_same = memcmp(ours.data(), again.data(), ours.size()*sizeof(float)) == 0;
    const bool   is_good = error < bound && is_same;  // NaN fails it
    if (!is_good) {
        printf("FAIL %s: relative squared error %g%s\n", s.text().c_str(), error, is_same ? "" : ", two runs differ");
    }
    return is_good;
}

const std::pair<ggml_type, ggml_type> types[] = {
    { GGML_TYPE_Q8_0, GGML_TYPE_Q8_0 }, { GGML_TYPE_Q4_0, GGML_TYPE_Q4_0 }, { GGML_TYPE_Q8_0, GGML_TYPE_Q4_0 },
    { GGML_TYPE_Q5_1, GGML_TYPE_IQ4_NL }, { GGML_TYPE_F16, GGML_TYPE_Q8_0 }, { GGML_TYPE_Q4_0, GGML_TYPE_F16 },
    { GGML_TYPE_IQ4_NL, GGML_TYPE_Q5_0 },
    { GGML_TYPE_KVARN_TBQ4_0, GGML_TYPE_KVARN_TBQ4_0 }, { GGML_TYPE_KVARN_PLANAR3_0, GGML_TYPE_KVARN_PLANAR3_0 },
    { GGML_TYPE_KVARN_TBQ4_0_64, GGML_TYPE_KVARN_PLANAR3_0_64 }, { GGML_TYPE_KVARN_PLANAR3_0_64, GGML_TYPE_Q8_0 },
    { GGML_TYPE_KVARN_TCQ4_0, GGML_TYPE_KVARN_TCQ4_0 }, { GGML_TYPE_KVARN_TCQ3_0, GGML_TYPE_KVARN_TCQ3_0 },
    { GGML_TYPE_KVARN_TCQ4_0_64, GGML_TYPE_KVARN_TCQ3_0_64 }, { GGML_TYPE_KVARN_TCQ3_0_64, GGML_TYPE_KVARN_TCQ4_0_64 },
    { GGML_TYPE_KVARN_PLANAR3_0_64, GGML_TYPE_KVARN_TBQ4_0_64 },
};

bool has_blocks(const shape & s) {
    return s.dk % ggml_blck_size(s.type_k) == 0 && s.dv % ggml_blck_size(s.type_v) == 0;
}

// Every number of rows that one decode step may have before rows are many, and numbers of keys that four does not divide.
std::vector<shape> few_rows() {
    std::vector<shape> list;
    int n = 0;
    for (const auto & [type_k, type_v] : types) {
        for (int64_t d : { 64, 96, 128, 192, 256 }) {
            for (int64_t rows = 1; rows <= 8; rows++, n++) {
                const int64_t n_kv = n % 3 == 0 ? 61 + rows : 129 + 2*rows;
                const shape s = { type_k, type_v, d, d, 1 + n % 2, rows, 1, n_kv, 1, masking::NONE, 0.0f, 0.0f, false, 1 + n % 2 };
                if (has_blocks(s)) {
                    list.push_back(s);
                }
            }
        }
    }
    return list;
}

std::vector<shape> shapes() {
    std::vector<shape> list;
    int n = 0;
    for (const auto & [type_k, type_v] : types) {
        for (const auto & [dk, dv] : { std::pair<int64_t, int64_t>{ 64, 64 }, { 96, 96 }, { 192, 128 }, { 256, 256 } }) {
            if (dk % ggml_blck_size(type_k) != 0 || dv % ggml_blck_size(type_v) != 0) {
                continue;
            }
            for (const auto & [kv_heads, group] : { std::pair<int64_t, int64_t>{ 3, 3 }, { 1, 4 }, { 2, 1 }, { 1, 71 } }) {
                for (const auto & [n_queries, n_kv] : { std::pair<int64_t, int64_t>{ 1, 1 }, { 1, 515 }, { 1, 1024 }, { 5, 67 }, { 37, 256 }, { 75, 333 } }) {
                    // The rest takes turns: every pair of values meets, not every combination.
                    const masking mask = (masking) (n % 4);
                    const float   bias = mask != masking::NONE && n % 3 == 0 ? 8.0f : 0.0f;
                    list.push_back({ type_k, type_v, dk, dv, kv_heads, group, n_queries, n_kv, 1 + n % 5 / 4, mask, bias,
                                     n % 7 == 0 ? 10.0f : 0.0f, n % 2 == 1, 1 + n % 3 + n % 11 / 9 });
                    n++;
                }
            }
        }
    }
    return list;
}

} // namespace

int main(int argc, char ** argv) {
    const int every = argc > 1 ? std::max(1, atoi(argv[1])) : 1;
    ggml_backend_t backend = ggml_backend_cpu_init();
    int n_run = 0, n_failed = 0;
    for (const shape & s : few_rows()) {
        n_run++;
        n_failed += !check(backend, s, bound_of_few(s));
    }
    const std::vector<shape> list = shapes();
    for (size_t i = 0; i < list.size(); i += every) {
        n_run++;
        n_failed += !check(backend, list[i], LOOSE);
    }
    ggml_backend_free(backend);
    printf("%d of %d cases failed\n", n_failed, n_run);
    return n_failed == 0 ? 0 : 1;
}
