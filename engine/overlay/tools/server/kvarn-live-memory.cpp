#include "kvarn-live-memory.h"

#include "../../src/kvarn-kv-facts.h"
#include "../../src/llama-ext.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

// Held by readers and by load and unload, never on the way to or from a decode.
static std::mutex        mutex_memory;
static kvarn_live_memory memory;

//   has_own_model: false for a draft context on the target's weights, which are counted once
static void add_context(kvarn_live_memory & to, const char * context, const llama_context * ctx, bool has_own_model) {
    for (const auto & cache : kvarn_kv_caches_get(ctx)) {
        to.caches.push_back({ context, cache.role, cache.type_k, cache.type_v, cache.k_bytes, cache.v_bytes, cache.n_cells });
    }
    for (const auto & [type, bytes] : llama_get_memory_breakdown(ctx)) {
        const ggml_backend_dev_t device = ggml_backend_buft_get_device(type);
        to.buffers.push_back({ context, ggml_backend_buft_name(type), device ? ggml_backend_dev_name(device) : "",
                               ggml_backend_buft_is_host(type), has_own_model ? bytes.model : 0, bytes.context, bytes.compute });
    }
}

static void ask_device(kvarn_live_device & to, ggml_backend_dev_t device) {
    size_t free  = 0;
    size_t total = 0;
    ggml_backend_dev_memory(device, &free, &total);
    to.total_bytes = total;
    to.free_bytes  = free;
    to.knows_free  = ggml_backend_dev_type(device) != GGML_BACKEND_DEVICE_TYPE_CPU;
}

static std::vector<kvarn_live_device> ask_devices() {
    std::vector<kvarn_live_device> devices;
    for (size_t i = 0; i < ggml_backend_dev_count(); ++i) {
        const ggml_backend_dev_t device = ggml_backend_dev_get(i);
        kvarn_live_device & to = devices.emplace_back();
        to.name        = ggml_backend_dev_name(device);
        to.description = ggml_backend_dev_description(device);
        ask_device(to, device);
    }
    return devices;
}

// A driver may take its time while the device is busy, so neither the loop nor a reader asks it: this thread does, once a
// second, as long as somebody reads.
class device_watch {
public:
    ~device_watch() { stop(); }

    void on_read() {
        std::lock_guard<std::mutex> lock(mutex);
        is_wanted = true;
        if (!thread.joinable() && !is_stopping) {
            thread = std::thread([this]() { run(); });
        }
        condition.notify_one();
    }

    void stop() {
        {
            std::lock_guard<std::mutex> lock(mutex);
            is_stopping = true;
        }
        condition.notify_one();
        if (thread.joinable()) {
            thread.join();
        }
    }

private:
    std::mutex              mutex;
    std::condition_variable condition;
    std::thread             thread;
    bool                    is_wanted   = false;
    bool                    is_stopping = false;

    void run() {
        std::unique_lock<std::mutex> lock(mutex);
        while (!is_stopping) {
            condition.wait(lock, [this]() { return is_wanted || is_stopping; });
            is_wanted = false;
            lock.unlock();
            auto devices = ask_devices();
            {
                std::lock_guard<std::mutex> lock_memory(mutex_memory);
                memory.devices = std::move(devices);
            }
            lock.lock();
            condition.wait_for(lock, std::chrono::seconds(1), [this]() { return is_stopping; });
        }
    }
};

static device_watch watch;

void kvarn_live_memory_on_load(const llama_context * ctx_tgt, const llama_context * ctx_dft) {
    kvarn_live_memory loaded;
    add_context(loaded, "target", ctx_tgt, true);
    if (ctx_dft) {
        add_context(loaded, "draft", ctx_dft, llama_get_model(ctx_dft) != llama_get_model(ctx_tgt));
    }
    loaded.devices = ask_devices();
    loaded.kv_pad  = kvarn_kv_facts_get(ctx_tgt).kv_pad;

    std::lock_guard<std::mutex> lock(mutex_memory);
    memory = std::move(loaded);
}

void kvarn_live_memory_on_unload() {
    std::lock_guard<std::mutex> lock(mutex_memory);
    memory.caches.clear();
    memory.buffers.clear();
    memory.kv_pad = -1;
}

kvarn_live_memory kvarn_live_memory_read() {
    std::unique_lock<std::mutex> lock(mutex_memory);
    kvarn_live_memory copy = memory;
    lock.unlock();

    for (const auto & device : copy.devices) {
        if (device.knows_free) {
            watch.on_read();
            break;
        }
    }
    return copy;
}

void kvarn_live_memory_stop() {
    watch.stop();
}
