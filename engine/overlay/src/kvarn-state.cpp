#include "kvarn-state.h"

#include "llama-context.h"
#include "llama-impl.h"
#include "llama-io.h"
#include "llama-memory.h"

#include <cstring>
#include <stdexcept>

namespace {

// collects what is written: small things as bytes, tensors as places to copy from later
class state_writer : public llama_io_write_i {
public:
    struct small {
        size_t at;    // within the state
        size_t begin; // within `bytes`
        size_t size;
    };

    void write(const void * src, size_t size) override {
        const auto * p = (const uint8_t *) src;
        smalls.push_back({ n, bytes.size(), size });
        bytes.insert(bytes.end(), p, p + size);
        n += size;
    }

    void write_tensor(ggml_tensor * tensor, size_t offset, size_t size) override {
        parts.push_back({ tensor, offset, size, n });
        n += size;
    }

    size_t n_bytes() override { return n; }

    std::vector<small>           smalls;
    std::vector<uint8_t>         bytes;
    std::vector<kvarn_host_copy> parts;

private:
    size_t n = 0;
};

class state_reader : public llama_io_read_i {
public:
    state_reader(const uint8_t * data, size_t size) : data(data), size(size) {}

    void read(void * dst, size_t n) override {
        memcpy(dst, take(n), n);
    }

    void read_tensor(ggml_tensor * tensor, size_t offset, size_t n) override {
        parts.push_back({ tensor, offset, n, at });
        take(n);
    }

    void discard() override { parts.clear(); }

    size_t n_bytes() override { return at; }

    // nothing is written to a tensor before the whole state has been read
    void apply() {
        for (const auto & part : parts) {
            ggml_backend_tensor_set(const_cast<ggml_tensor *>(part.tensor), data + part.at, part.offset, part.size);
        }
    }

private:
    const uint8_t * take(size_t n) {
        if (n > size - at) {
            throw std::runtime_error("a saved state ends too early");
        }
        at += n;
        return data + at - n;
    }

    const uint8_t * data;
    const size_t    size;
    size_t          at = 0;

    std::vector<kvarn_host_copy> parts;
};

// never destroyed: at exit a device's driver may be gone before our statics are
kvarn_host_copier & copier() {
    static auto * instance = new kvarn_host_copier();
    return *instance;
}

void collect(llama_context * ctx, llama_seq_id seq_id, llama_state_seq_flags flags, state_writer & writer) {
    if (llama_memory_t memory = ctx->get_memory()) {
        memory->state_write(writer, seq_id, flags & ~LLAMA_STATE_SEQ_FLAGS_ON_DEVICE);
    }
}

}

size_t kvarn_state_size(llama_context * ctx, llama_seq_id seq_id, llama_state_seq_flags flags) {
    state_writer writer;
    collect(ctx, seq_id, flags, writer);
    return writer.n_bytes();
}

std::shared_ptr<kvarn_state_bytes> kvarn_state_save(llama_context * ctx, llama_seq_id seq_id, llama_state_seq_flags flags,
        std::shared_ptr<kvarn_state_bytes> spent) {
    ctx->synchronize();

    state_writer writer;
    collect(ctx, seq_id, flags, writer);

    if (!spent || spent.use_count() > 1 || !spent->reuse(writer.n_bytes())) {
        spent.reset(); // first: two states at once would cost twice the memory
        spent = std::make_shared<kvarn_state_bytes>(writer.n_bytes());
    }
    const auto state = std::move(spent);
    for (const auto & small : writer.smalls) {
        memcpy(state->data() + small.at, writer.bytes.data() + small.begin, small.size);
    }

    std::vector<ggml_backend_t> backends;
    for (int i = 0; i < ggml_backend_sched_get_n_backends(ctx->get_sched()); ++i) {
        backends.push_back(ggml_backend_sched_get_backend(ctx->get_sched(), i));
    }
    copier().copy(backends, writer.parts, state);

    return state;
}

bool kvarn_state_load(llama_context * ctx, const kvarn_state_bytes & bytes, llama_seq_id seq_id, llama_state_seq_flags flags) {
    ctx->synchronize();

    state_reader reader(bytes.wait(), bytes.size());
    try {
        if (llama_memory_t memory = ctx->get_memory()) {
            memory->state_read(reader, seq_id, flags & ~LLAMA_STATE_SEQ_FLAGS_ON_DEVICE);
        }
    } catch (const std::exception & err) {
        LLAMA_LOG_ERROR("%s: the state was not restored: %s\n", __func__, err.what());
        return false;
    }
    reader.apply();

    return reader.n_bytes() == bytes.size();
}

size_t kvarn_state_staging_bytes() {
    return copier().pinned_bytes();
}

void kvarn_state_drain() {
    copier().drain();
}

void kvarn_state_release() {
    copier().release();
}
