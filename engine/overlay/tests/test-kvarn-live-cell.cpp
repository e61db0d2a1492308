// The cell between the thread that computes and those that read: no state is torn, none goes back, none is lost at the end.
// Build with -fsanitize=thread to prove that no word is raced for. Arguments: states to write, words of a state.

#include "kvarn-live-cell.h"

#include <cstdio>
#include <cstdlib>
#include <thread>

static constexpr int N_READERS = 3;

// word i of state n; a reader can tell a state put together of two
static uint64_t word(uint64_t n, size_t i) {
    return n*0x9E3779B97F4A7C15ull ^ i;
}

struct reader_result {
    uint64_t n_reads  = 0;
    uint64_t n_states = 0; // different ones
    uint64_t n_torn   = 0;
    uint64_t n_back   = 0; // older than the one before
    uint64_t last     = 0;
};

static void read_until(const kvarn_live_cell & cell, uint64_t n_last, reader_result & result) {
    std::vector<uint64_t> words(cell.n_words());
    while (result.last < n_last) {
        const uint64_t n = cell.read(words.data());
        if (n == 0) {
            continue;
        }
        result.n_reads++;
        result.n_states += n > result.last;
        result.n_back   += n < result.last;
        result.last = n;
        for (size_t i = 0; i < words.size(); ++i) {
            if (words[i] != word(n, i)) {
                result.n_torn++;
                break;
            }
        }
    }
}

int main(int argc, char ** argv) {
    const uint64_t n_states = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 200000;
    const size_t   n_words  = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 96;

    kvarn_live_cell cell(n_words);
    std::vector<uint64_t> words(n_words);
    if (cell.read(words.data()) != 0) {
        printf("an empty cell gave a state\n");
        return 1;
    }

    std::vector<reader_result> results(N_READERS);
    std::vector<std::thread>   readers;
    for (auto & result : results) {
        readers.emplace_back([&]() { read_until(cell, n_states, result); });
    }
    for (uint64_t n = 1; n <= n_states; ++n) {
        for (size_t i = 0; i < n_words; ++i) {
            words[i] = word(n, i);
        }
        cell.write(words.data());
    }
    for (auto & reader : readers) {
        reader.join();
    }

    bool ok = true;
    for (const auto & result : results) {
        printf("reads %llu, states %llu, torn %llu, back %llu, last %llu\n", (unsigned long long) result.n_reads,
               (unsigned long long) result.n_states, (unsigned long long) result.n_torn, (unsigned long long) result.n_back,
               (unsigned long long) result.last);
        ok = ok && result.n_torn == 0 && result.n_back == 0 && result.last == n_states;
    }
    return ok ? 0 : 1;
}
