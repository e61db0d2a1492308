// How many cells attention spans, by arithmetic alone: every n up to 300,000, growth and rollback.

#include "test-kvarn-expect.h"
#include "kvarn-kv-pad.h"

#include <cstdint>
#include <cstdio>

static constexpr uint32_t SIZE = 1u << 20;

// graph builds while the text grows token by token from n0 to n1 cells
static int n_builds(uint16_t pad, uint32_t n0, uint32_t n1) {
    kvarn_kv_pad kv_pad;
    kv_pad.pad = pad;

    int      n_changes = 0;
    uint32_t n_kv      = n0 == 0 ? 0 : kv_pad.n_kv(0, n0, 1, SIZE);
    for (uint32_t n = n0 + 1; n <= n1; ++n) {
        const uint32_t next = kv_pad.n_kv(0, n, 1, SIZE);
        n_changes += next != n_kv;
        n_kv = next;
    }
    return n_changes;
}

static void test_builds() {
    EXPECT(n_builds(256,                 0, 262144) == 1024, "%d", n_builds(256, 0, 262144));
    EXPECT(n_builds(4096,                0, 262144) ==   64, "%d", n_builds(4096, 0, 262144));
    EXPECT(n_builds(KVARN_KV_PAD_AUTO,   0, 262144) ==   64, "%d", n_builds(KVARN_KV_PAD_AUTO, 0, 262144));
    EXPECT(n_builds(KVARN_KV_PAD_AUTO,   0,   4096) ==   16, "short texts are padded as upstream does");
    for (uint32_t n = 4096; n < 262144; n *= 2) {
        EXPECT(n_builds(KVARN_KV_PAD_AUTO, n, 2*n) == 8, "eight for each doubling, from %u", n);
    }
}

static void test_each_n() {
    uint32_t last = 0;
    for (uint32_t n = 1; n <= 300000; ++n) {
        const uint32_t step = kvarn_kv_pad_step(KVARN_KV_PAD_AUTO, n);
        const uint32_t n_kv = kvarn_kv_pad_up  (KVARN_KV_PAD_AUTO, n);

        EXPECT(step >= 256 && step <= 16384 && (step & (step - 1)) == 0, "n = %u, step = %u", n, step);
        EXPECT(n_kv % 256 == 0 && n_kv >= n && n_kv >= 256, "n = %u, n_kv = %u", n, n_kv);
        EXPECT(n_kv - n <= 255 || 8*(n_kv - n) <= n, "n = %u: %u masked cells", n, n_kv - n);
        EXPECT(n_kv >= last, "n = %u: falls from %u to %u", n, last, n_kv);
        last = n_kv;

        EXPECT(kvarn_kv_pad_up(256, n) == (n + 255)/256*256, "n = %u", n);
    }
}

static void test_rollback() {
    for (const uint16_t pad : { (uint16_t) KVARN_KV_PAD_AUTO, (uint16_t) 512, (uint16_t) 4096 }) {
        for (uint32_t edge = 512; edge <= 262144; edge *= 2) {
            kvarn_kv_pad kv_pad;
            kv_pad.pad = pad;

            const uint32_t n_kv = kv_pad.n_kv(0, edge + 1, 4, SIZE);
            for (uint32_t back = 0; back < 32; ++back) {
                // a draft of up to 32 tokens is taken back and another tried
                EXPECT(kv_pad.n_kv(0, edge - back, 1, SIZE) == n_kv, "pad %u, edge %u, back %u", pad, edge, back);
                EXPECT(kv_pad.n_kv(0, edge +    1, 4, SIZE) == n_kv, "pad %u, edge %u, back %u", pad, edge, back);
            }

            // what is held is bounded, and forgotten when the cache begins anew
            EXPECT(kv_pad.n_kv(0, edge/2, 1, SIZE) == kvarn_kv_pad_up(pad, edge/2) || edge/2 + kvarn_kv_pad_slack(pad, n_kv) >= n_kv,
                    "pad %u, edge %u", pad, edge);
            kv_pad.n_kv(0, edge + 1, 4, SIZE);
            EXPECT(kv_pad.n_kv(0, edge - 1, edge - 1, SIZE) == kvarn_kv_pad_up(pad, edge - 1), "pad %u, edge %u", pad, edge);
        }
    }
}

static void test_masked_share() {
    kvarn_kv_pad kv_pad;
    kv_pad.pad = KVARN_KV_PAD_AUTO;

    // a walk forwards and backwards: an eighth of the cells spanned, or 320 of them, are masked at most
    uint32_t state = 1, n = 1;
    for (int i = 0; i < 1000000; ++i) {
        state = state*1664525u + 1013904223u;
        const uint32_t by = (state >> 16) % 5000;
        n = (state >> 31) ? n + by : n > by ? n - by : 1;
        n = n > 400000 ? 1 : n;

        const uint32_t n_kv = kv_pad.n_kv(0, n, 1, SIZE);
        EXPECT(n_kv >= n && n_kv % 256 == 0, "n = %u, n_kv = %u", n, n_kv);
        EXPECT(n_kv - n <= 320 || 8*(n_kv - n) <= n_kv, "n = %u, n_kv = %u", n, n_kv);
    }
}

static void test_bounds() {
    kvarn_kv_pad kv_pad;
    kv_pad.pad = 4096;
    EXPECT(kv_pad.n_kv(0, 10, 1, 1024) == 1024, "no more than there is");
    EXPECT(kv_pad.n_kv(3, 10, 1, 8192) == 4096, "each stream has its own");

    for (const uint32_t pad : { 0u, 1u, 256u, 512u, 4096u, 32768u }) {
        EXPECT(kvarn_kv_pad_is_valid(pad), "%u", pad);
    }
    for (const uint32_t pad : { 2u, 255u, 257u, 300u, 33024u, 65536u }) {
        EXPECT(!kvarn_kv_pad_is_valid(pad), "%u", pad);
    }
}

int main() {
    test_builds();
    test_each_n();
    test_rollback();
    test_masked_share();
    test_bounds();

    printf("%s: %d rules broken\n", n_broken ? "FAIL" : "OK", n_broken);
    return n_broken ? 1 : 0;
}
