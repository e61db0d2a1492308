#pragma once

// Copies parts of tensors into host memory through two pinned chunks, whatever the size of what is copied.
//
// A device writes to pinned memory several times faster than to pageable memory, but pinned memory is taken from
// everybody. So a device tensor travels in chunks: while the device fills one, a worker thread moves the other one on
// to where it belongs. Tensors in host memory are copied directly and never take a chunk. Uses only the public
// interface of ggml-backend: pinned memory is what a device names as its host buffer type; a device that names none,
// or cannot give it, is read directly.

#include "ggml-backend.h"
#include "llama.h"

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

// The bytes of one saved state: written once, by one copy, and then only read. Not zeroed.
// Whoever writes to it holds a shared pointer, so it may be dropped by its owner at any time.
class LLAMA_API kvarn_state_bytes {
public:
    explicit kvarn_state_bytes(size_t size);
    ~kvarn_state_bytes();

    kvarn_state_bytes(const kvarn_state_bytes &) = delete;
    kvarn_state_bytes & operator=(const kvarn_state_bytes &) = delete;

    size_t    size() const { return n; }
    uint8_t * data()       { return bytes.get(); }

    // hold another state of this size in the same memory. False when it is too small or counted; then nothing has changed.
    // For the sole owner: nothing is on its way then, but the wait orders what arrived before
    bool reuse(size_t size);

    // the bytes, once all of them have arrived; blocks until then
    const uint8_t * wait() const;

    // add size() + extra to `total`, and 1 to `count` if there is one, until the bytes are freed. At most once
    void charge(std::atomic<uint64_t> & total, size_t extra, std::atomic<uint64_t> * count);
    bool is_counted() const { return charged_count != nullptr; }

    // a part of the bytes is on its way / has arrived
    void part_begun();
    void part_done();

private:
    size_t       n;
    const size_t capacity;
    std::unique_ptr<uint8_t[]> bytes;

    std::atomic<uint64_t> * charged_count = nullptr;
    std::atomic<uint64_t> * charged_total = nullptr;
    size_t                  charged       = 0;

    mutable std::mutex              mutex;
    mutable std::condition_variable arrived;
    int                             n_open = 0;
};

struct kvarn_host_copy {
    const ggml_tensor * tensor;
    size_t              offset; // in bytes, within the tensor
    size_t              size;   // in bytes
    size_t              at;     // in bytes, within the destination
};

class LLAMA_API kvarn_host_copier {
public:
    static constexpr size_t CHUNK_BYTES = 64u << 20;
    static constexpr int    N_CHUNKS    = 2;

    // stage_all: take host tensors through the chunks too, in plain memory (for tests on a machine without a device)
    explicit kvarn_host_copier(size_t chunk_bytes = CHUNK_BYTES, bool stage_all = false);
    ~kvarn_host_copier();

    // When this returns nothing reads the tensors any more, so they may be overwritten. `to` has all of its bytes
    // when to->wait() returns. One caller at a time.
    void copy(const std::vector<ggml_backend_t> & backends, const std::vector<kvarn_host_copy> & parts, const std::shared_ptr<kvarn_state_bytes> & to);

    // block until no copy is under way any more; then nothing but its owners holds a state
    void drain();

    // drain, end the worker and give the pinned memory back
    void release();

    // pinned now, in bytes: at most N_CHUNKS*chunk_bytes. Any thread
    size_t pinned_bytes() const { return n_pinned; }

private:
    struct chunk;
    struct job {
        chunk * from;
        std::shared_ptr<kvarn_state_bytes> to;
    };

    ggml_backend_buffer_type_t staging_type(ggml_backend_t backend, const ggml_tensor * tensor) const;

    bool take_chunk(ggml_backend_t backend, ggml_backend_buffer_type_t buft, size_t wanted);
    void submit();
    void land(chunk & c);
    void stage(ggml_backend_t backend, const kvarn_host_copy & part);
    void work();

    const size_t chunk_bytes;
    const bool   stage_all;

    std::atomic<size_t> n_pinned { 0 };

    // touched by the caller of copy() only
    std::vector<std::unique_ptr<chunk>> chunks;
    chunk * filling = nullptr; // takes parts
    chunk * flying  = nullptr; // being written by its device
    std::shared_ptr<kvarn_state_bytes> to;

    // shared with the worker
    std::mutex              mutex;
    std::condition_variable changed;
    std::deque<job>         jobs;
    bool                    stop = false;
    std::thread             worker;
};
