#pragma once

// The newest state of one writer, for readers on other threads that must never make it wait.
//
// Two buffers take turns: the writer fills the older one, so a reader of the newest is disturbed only if the writer
// publishes twice meanwhile, and then it looks again. Writing is wait-free and takes no lock. Every word is an atomic,
// so a torn read is a value that is thrown away, never a data race.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

class kvarn_live_cell {
public:
    explicit kvarn_live_cell(size_t n_words) : buffers{ buffer(n_words), buffer(n_words) } {}

    size_t n_words() const { return buffers[0].words.size(); }

    // one thread at a time
    void write(const uint64_t * words) {
        const uint64_t n = n_written.load(std::memory_order_relaxed) + 1;

        buffer & to = buffers[n % 2];
        to.number.store(0, std::memory_order_relaxed);
        for (size_t i = 0; i < to.words.size(); ++i) {
            // release: who sees this word sees the 0 above, too
            to.words[i].store(words[i], std::memory_order_release);
        }
        to.number.store(n, std::memory_order_release);
        n_written.store(n, std::memory_order_release);
    }

    // any thread. Returns the number of the state that was read: 1, 2, 3, ... in the order of writing; 0 when there is none yet
    uint64_t read(uint64_t * words) const {
        while (const uint64_t n = n_written.load(std::memory_order_acquire)) {
            const buffer & from = buffers[n % 2];
            if (from.number.load(std::memory_order_acquire) != n) {
                continue;
            }
            for (size_t i = 0; i < from.words.size(); ++i) {
                words[i] = from.words[i].load(std::memory_order_acquire);
            }
            if (from.number.load(std::memory_order_relaxed) == n) {
                return n;
            }
        }
        return 0;
    }

private:
    struct buffer {
        std::atomic<uint64_t>              number { 0 }; // of the state in `words`, 0 while they are being written
        std::vector<std::atomic<uint64_t>> words;

        explicit buffer(size_t n) : words(n) {}
    };

    buffer                buffers[2];
    std::atomic<uint64_t> n_written { 0 };
};
