#include "kvarn-host-copy.h"

#include "ggml-cpp.h"

#include <algorithm>
#include <cstring>

//
// kvarn_state_bytes
//

kvarn_state_bytes::kvarn_state_bytes(size_t size) : n(size), capacity(size), bytes(new uint8_t[size]) {}

kvarn_state_bytes::~kvarn_state_bytes() {
    if (charged_total) {
        *charged_total -= charged;
    }
    if (charged_count) {
        *charged_count -= 1;
    }
}

bool kvarn_state_bytes::reuse(size_t size) {
    if (size > capacity || charged_total) {
        return false;
    }
    wait();
    n = size;
    return true;
}

const uint8_t * kvarn_state_bytes::wait() const {
    std::unique_lock<std::mutex> lock(mutex);
    arrived.wait(lock, [this] { return n_open == 0; });
    return bytes.get();
}

void kvarn_state_bytes::charge(std::atomic<uint64_t> & total, size_t extra, std::atomic<uint64_t> * count) {
    GGML_ASSERT(charged_total == nullptr);

    charged = n + extra;

    charged_count = count;
    charged_total = &total;

    *charged_total += charged;
    if (charged_count) {
        *charged_count += 1;
    }
}

void kvarn_state_bytes::part_begun() {
    std::lock_guard<std::mutex> lock(mutex);
    ++n_open;
}

void kvarn_state_bytes::part_done() {
    std::lock_guard<std::mutex> lock(mutex);
    if (--n_open == 0) {
        arrived.notify_all();
    }
}

//
// kvarn_host_copier
//

struct kvarn_host_copier::chunk {
    struct piece {
        size_t from; // within the chunk
        size_t at;   // within the destination
        size_t size;
    };

    ggml_backend_buffer_type_t buft = nullptr; // as asked for: a backend may fall back to another
    ggml_backend_buffer_ptr buffer;
    ggml_backend_event_ptr  event;  // NULL when the device has none: then the backend is waited for
    ggml_backend_t          backend = nullptr;
    size_t                  size    = 0;
    size_t                  used    = 0;
    std::vector<piece>      pieces;

    bool busy = false; // with the worker; guarded by the copier's mutex

    uint8_t * base() { return (uint8_t *) ggml_backend_buffer_get_base(buffer.get()); }
};

kvarn_host_copier::kvarn_host_copier(size_t chunk_bytes, bool stage_all) : chunk_bytes(chunk_bytes), stage_all(stage_all) {
    for (int i = 0; i < N_CHUNKS; ++i) {
        chunks.push_back(std::make_unique<chunk>());
    }
}

kvarn_host_copier::~kvarn_host_copier() {
    release();
}

// the memory to stage in, or NULL to read the tensor directly
ggml_backend_buffer_type_t kvarn_host_copier::staging_type(ggml_backend_t backend, const ggml_tensor * tensor) const {
    if (!backend) {
        return nullptr;
    }

    ggml_backend_dev_t dev = ggml_backend_get_device(backend);

    if (ggml_backend_buffer_is_host(tensor->buffer)) {
        return stage_all ? ggml_backend_dev_buffer_type(dev) : nullptr;
    }

    // a split device reads whole tensors only when asked to read beside its work
    if (ggml_backend_dev_type(dev) == GGML_BACKEND_DEVICE_TYPE_META) {
        return nullptr;
    }

    return ggml_backend_dev_host_buffer_type(dev);
}

static ggml_backend_t backend_of(const std::vector<ggml_backend_t> & backends, const ggml_tensor * tensor) {
    ggml_backend_buffer_type_t buft = ggml_backend_buffer_get_type(tensor->buffer);

    for (ggml_backend_t backend : backends) {
        if (ggml_backend_get_device(backend) == ggml_backend_buft_get_device(buft)) {
            return backend;
        }
    }

    return nullptr;
}

// make `filling` an empty chunk of this backend. False when there is no pinned memory left
bool kvarn_host_copier::take_chunk(ggml_backend_t backend, ggml_backend_buffer_type_t buft, size_t wanted) {
    if (filling && filling->backend == backend) {
        return true;
    }
    if (filling) {
        submit();
    }

    chunk & c = *chunks[flying == chunks[0].get() ? 1 : 0];
    {
        std::unique_lock<std::mutex> lock(mutex);
        changed.wait(lock, [&c] { return !c.busy; });
    }

    wanted = std::min(wanted, chunk_bytes);

    if (!c.buffer || c.size < wanted || c.buft != buft) {
        n_pinned -= c.size;
        c.size = 0;
        c.buffer.reset(); // first, so that the limit holds at every moment
        c.buffer.reset(ggml_backend_buft_alloc_buffer(buft, wanted));
        if (!c.buffer) {
            return false;
        }
        c.buft    = buft;
        c.size    = wanted;
        n_pinned += wanted;
    }

    if (c.backend != backend) {
        c.backend = backend;
        c.event.reset(ggml_backend_event_new(ggml_backend_get_device(backend)));
    }

    c.used = 0;
    c.pieces.clear();

    filling = &c;
    return true;
}

// wait for the device, then let the worker move the chunk on
void kvarn_host_copier::land(chunk & c) {
    if (c.event) {
        ggml_backend_event_synchronize(c.event.get());
    } else {
        ggml_backend_synchronize(c.backend);
    }

    to->part_begun();

    std::lock_guard<std::mutex> lock(mutex);
    if (!worker.joinable()) {
        stop   = false;
        worker = std::thread([this] { work(); });
    }
    c.busy = true;
    jobs.push_back({ &c, to });
    changed.notify_all();
}

// the chunk in `filling` is full, or the last: it flies while the one before it lands
void kvarn_host_copier::submit() {
    if (filling->event) {
        ggml_backend_event_record(filling->event.get(), filling->backend);
    }
    if (flying) {
        land(*flying);
    }
    flying  = filling;
    filling = nullptr;
}

void kvarn_host_copier::stage(ggml_backend_t backend, const kvarn_host_copy & part) {
    for (size_t done = 0; done < part.size; ) {
        const size_t n = std::min(part.size - done, filling->size - filling->used);

        ggml_backend_tensor_get_async(backend, part.tensor, filling->base() + filling->used, part.offset + done, n);

        filling->pieces.push_back({ filling->used, part.at + done, n });
        filling->used += n;
        done          += n;

        if (filling->used == filling->size) {
            ggml_backend_buffer_type_t buft = filling->buft;
            submit();
            if (done < part.size && !take_chunk(backend, buft, part.size - done)) {
                ggml_backend_tensor_get(part.tensor, to->data() + part.at + done, part.offset + done, part.size - done);
                return;
            }
        }
    }
}

void kvarn_host_copier::copy(const std::vector<ggml_backend_t> & backends, const std::vector<kvarn_host_copy> & parts, const std::shared_ptr<kvarn_state_bytes> & dst) {
    to = dst;

    size_t n_left = 0; // an upper limit for what has to be staged
    for (const auto & part : parts) {
        n_left += part.size;
    }

    for (const auto & part : parts) {
        ggml_backend_t backend = backend_of(backends, part.tensor);

        ggml_backend_buffer_type_t buft = part.size > 0 ? staging_type(backend, part.tensor) : nullptr;

        if (buft && take_chunk(backend, buft, n_left)) {
            stage(backend, part);
        } else if (part.size > 0) {
            ggml_backend_tensor_get(part.tensor, to->data() + part.at, part.offset, part.size);
        }
        n_left -= part.size;
    }

    if (filling) {
        submit();
    }
    if (flying) {
        land(*flying);
        flying = nullptr;
    }

    to.reset();
}

void kvarn_host_copier::work() {
    std::unique_lock<std::mutex> lock(mutex);

    while (true) {
        changed.wait(lock, [this] { return stop || !jobs.empty(); });
        if (jobs.empty()) {
            return;
        }

        job cur = std::move(jobs.front());
        jobs.pop_front();
        lock.unlock();

        for (const auto & piece : cur.from->pieces) {
            memcpy(cur.to->data() + piece.at, cur.from->base() + piece.from, piece.size);
        }
        cur.to->part_done();
        cur.to.reset(); // before the chunk is free: drain() promises that nothing is held here

        lock.lock();
        cur.from->busy = false;
        changed.notify_all();
    }
}

void kvarn_host_copier::drain() {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [this] {
        return std::none_of(chunks.begin(), chunks.end(), [](const auto & c) { return c->busy; });
    });
}

void kvarn_host_copier::release() {
    {
        std::lock_guard<std::mutex> lock(mutex);
        stop = true;
        changed.notify_all();
    }
    if (worker.joinable()) {
        worker.join(); // the jobs that are left are done first
        worker = std::thread();
    }
    for (auto & c : chunks) {
        n_pinned -= c->size;
        *c = chunk();
    }
}
