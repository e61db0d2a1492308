#pragma once

// Lets a decode end early when nobody waits for its result.
//
// A cancel task that arrives while llama_decode() runs is set aside until the batch is through, which on a CPU can be
// a minute of prefill. If the cancelled request is the only one in the batch, the batch is of no use to anybody: the
// decode is aborted (llama_decode() then returns 2) and the slot is released at once, keeping the cache of the whole
// ubatches. With other requests in the batch, or a cache that cannot be cut there, nothing is aborted. Backends
// without an abort callback (CUDA) finish their batch as before.

#include "llama.h"

#include <atomic>

struct kvarn_abort {
    // main thread: allow the callback to look at this object
    void install(llama_context * ctx);

    // main thread, around a decode. id_task is the only request in the batch, or -1 if nothing may be aborted
    void arm(int id_task);
    void disarm() { arm(-1); }

    // any thread: a cancel for this task was set aside until the decode is through
    void on_cancel_set_aside(int id_target);

private:
    std::atomic<int>  id_alone  { -1 };
    std::atomic<bool> requested { false };
};
