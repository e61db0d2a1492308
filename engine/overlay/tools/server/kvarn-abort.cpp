#include "kvarn-abort.h"

void kvarn_abort::install(llama_context * ctx) {
    llama_set_abort_callback(ctx, [](void * data) {
        return static_cast<const kvarn_abort *>(data)->requested.load(std::memory_order_relaxed);
    }, this);
}

void kvarn_abort::arm(int id_task) {
    requested = false;
    id_alone  = id_task;
}

void kvarn_abort::on_cancel_set_aside(int id_target) {
    if (id_target != -1 && id_alone == id_target) {
        requested = true;
    }
}
