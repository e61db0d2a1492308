// The staged copy into host memory: every byte arrives, pinned memory stays within its limit, a state may be dropped
// while it is on its way, tensors may be overwritten as soon as copy() has returned. Runs on the CPU, whose tensors
// are taken through the chunks here; build it with -fsanitize=thread to have the threads checked too.
// Prints one line per broken rule; exits 1 if there was any.

#include "kvarn-host-copy.h"

#include "ggml-cpp.h"
#include "ggml-cpu.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

static int n_broken = 0;

#define EXPECT(condition)                                              \
    do {                                                               \
        if (!(condition)) {                                            \
            ++n_broken;                                                \
            printf("line %d: %s\n", __LINE__, #condition);             \
        }                                                              \
    } while (0)

struct tensors {
    ggml_backend_ptr        backend { ggml_backend_cpu_init() };
    ggml_context_ptr        ctx;
    ggml_backend_buffer_ptr buffer;
    std::vector<ggml_tensor *>        all;
    std::vector<std::vector<uint8_t>> bytes; // what they hold

    explicit tensors(const std::vector<size_t> & sizes) {
        ctx.reset(ggml_init({ sizes.size()*ggml_tensor_overhead(), nullptr, true }));
        for (size_t size : sizes) {
            all.push_back(ggml_new_tensor_1d(ctx.get(), GGML_TYPE_I8, size));
        }
        buffer.reset(ggml_backend_alloc_ctx_tensors(ctx.get(), backend.get()));
        fill(0);
    }

    void fill(unsigned seed) {
        std::mt19937 random(seed);
        bytes.clear();
        for (ggml_tensor * t : all) {
            std::vector<uint8_t> b(ggml_nbytes(t));
            for (auto & x : b) {
                x = uint8_t(random());
            }
            ggml_backend_tensor_set(t, b.data(), 0, b.size());
            bytes.push_back(std::move(b));
        }
    }

    // two parts of each tensor, and a gap of 3 bytes before each where nothing may be written
    std::vector<kvarn_host_copy> parts(size_t * total) const {
        std::vector<kvarn_host_copy> res;
        size_t at = 0;
        for (ggml_tensor * t : all) {
            const size_t n = ggml_nbytes(t);
            const size_t a = n/3;
            res.push_back({ t, 0, a,     at + 3 });
            res.push_back({ t, a, n - a, at + 3 + a });
            at += 3 + n;
        }
        *total = at;
        return res;
    }
};

static bool arrived(const std::vector<std::vector<uint8_t>> & bytes, const std::vector<kvarn_host_copy> & parts, const kvarn_state_bytes & state) {
    const uint8_t * got = state.wait();
    for (size_t i = 0; i < parts.size(); ++i) {
        if (memcmp(got + parts[i].at, bytes[i/2].data() + parts[i].offset, parts[i].size) != 0) {
            return false;
        }
    }
    return true;
}

static void check_copies(size_t chunk, bool stage, const std::vector<size_t> & sizes) {
    tensors ts(sizes);
    kvarn_host_copier copier(chunk, stage);

    size_t total = 0;
    const auto parts = ts.parts(&total);

    for (unsigned round = 1; round < 20; ++round) {
        ts.fill(round);
        auto state = std::make_shared<kvarn_state_bytes>(total);
        memset(state->data(), 0xee, total);

        copier.copy({ ts.backend.get() }, parts, state);

        const auto bytes = ts.bytes;
        ts.fill(round + 1000); // at once: nobody may still be reading
        EXPECT(arrived(bytes, parts, *state));
        EXPECT(state->wait()[0] == 0xee && state->wait()[2] == 0xee);
        EXPECT(copier.pinned_bytes() <= kvarn_host_copier::N_CHUNKS*chunk);
        EXPECT(stage || copier.pinned_bytes() == 0);

        if (round == 10) {
            state.reset();
            copier.release();
            EXPECT(copier.pinned_bytes() == 0);
        }
    }
}

static void check_dropped_in_flight() {
    tensors ts({ 50000, 1, 4096, 30000 });
    kvarn_host_copier copier(4096, true);

    std::atomic<uint64_t> count { 0 };
    std::atomic<uint64_t> total { 0 };
    std::atomic<bool>     done  { false };
    uint64_t              most = 0;

    std::thread reader([&] {
        while (!done) {
            most = std::max<uint64_t>(most, copier.pinned_bytes());
            EXPECT(count <= 3);
        }
    });

    size_t size = 0;
    const auto parts = ts.parts(&size);

    std::shared_ptr<kvarn_state_bytes> kept;
    for (int i = 0; i < 500; ++i) {
        auto state = std::make_shared<kvarn_state_bytes>(size);
        copier.copy({ ts.backend.get() }, parts, state);
        state->charge(total, 7, &count);
        if (i % 5 == 0) {
            kept = state;
        }
        if (i % 7 == 0) {
            EXPECT(arrived(ts.bytes, parts, *kept));
        }
    }
    copier.drain();
    EXPECT(count == 1);
    EXPECT(total == size + 7);
    kept.reset();
    EXPECT(count == 0);
    EXPECT(total == 0);

    done = true;
    reader.join();
    EXPECT(most <= 2*4096);

    // dropped last by the worker, and the copier gone right after
    copier.copy({ ts.backend.get() }, parts, std::make_shared<kvarn_state_bytes>(size));
}

static void check_reuse() {
    tensors ts({ 10, 4096, 100000 });
    kvarn_host_copier copier(4096, true);

    size_t total = 0;
    const auto parts = ts.parts(&total);

    auto state = std::make_shared<kvarn_state_bytes>(total + 5);
    const uint8_t * at = state->data();
    for (unsigned round = 1; round < 20; ++round) {
        ts.fill(round);
        EXPECT(state->reuse(total)); // while the last copy may still be on its way
        EXPECT(state->data() == at && state->size() == total);
        copier.copy({ ts.backend.get() }, parts, state);
        if (round % 2) {
            EXPECT(arrived(ts.bytes, parts, *state));
        }
    }

    EXPECT(state->reuse(total + 5));
    EXPECT(!state->reuse(total + 6) && state->size() == total + 5);

    std::atomic<uint64_t> bytes { 0 };
    state->charge(bytes, 0, nullptr);
    EXPECT(!state->reuse(total)); // the account would be wrong
}

int main() {
    check_copies(4096,    true,  { 10, 4096, 3, 100000, 1, 8192, 4095 });
    check_copies(1,       true,  { 5, 17 });
    check_copies(1 << 20, true,  { 10, 4096, 3, 100000 }); // less than a chunk in all
    check_copies(4096,    false, { 10, 4096, 3, 100000 }); // host tensors need no staging
    check_dropped_in_flight();
    check_reuse();

    printf("host copy: %s\n", n_broken ? "broken" : "ok");
    return n_broken ? 1 : 0;
}
