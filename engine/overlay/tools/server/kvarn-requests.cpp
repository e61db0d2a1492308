#include "kvarn-requests.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

struct kvarn_request {
    uint64_t     seq = 0; // 1, 2, 3, ... in the order of release
    int          id_task;
    int          id_slot;
    int64_t      t_finish_ms;  // Unix time
    int64_t      t_queue_us;   // from the task's making to its start in a slot
    int64_t      t_prompt_us;  // from the start to the last prompt token, or to the first generated one
    int64_t      t_gen_us;     // from the first generated token to the last
    uint64_t     n_prompt;     // the whole prompt
    uint64_t     n_cached;     // ... of which taken from the cache
    uint64_t     n_processed;  // ... of which computed
    uint64_t     n_gen;
    uint64_t     n_draft;
    uint64_t     n_draft_accepted;
    const char * finish;       // a literal
    std::string  error;        // the engine's own sentence, empty unless it failed
};

static constexpr size_t N_KEPT = 256;

static std::mutex                         mutex_requests;
static std::array<kvarn_request, N_KEPT>  requests; // request seq lives in [seq % N_KEPT]
static std::atomic<uint64_t>              seq_last { 0 }; // changed under the lock, read by anyone

// main thread only
static int         id_failed   = -1;
static error_type  type_failed = ERROR_TYPE_SERVER;
static std::string error_failed;

void kvarn_requests_on_error(int id_task, error_type type, const std::string & error) {
    id_failed    = id_task;
    type_failed  = type;
    error_failed = error;
}

static const char * finish_of(const server_task & task, stop_type stop) {
    if (task.id == id_failed) {
        return type_failed == ERROR_TYPE_EXCEED_CONTEXT_SIZE ? "too_long" : "error";
    }
    switch (stop) {
        case STOP_TYPE_EOS:   return "eos";
        case STOP_TYPE_WORD:  return "stop_word";
        case STOP_TYPE_LIMIT: return "limit";
        case STOP_TYPE_NONE:  break;
    }
    // no stop reason: embeddings and rerankings have none, a completion was left by its client
    return task.need_embd() ? "done" : "cancelled";
}

static int64_t unix_time_ms() {
    using namespace std::chrono;
    return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}

void kvarn_requests_on_release(const server_task & task, const server_slot_stats & stats, int id_slot, stop_type stop) {
    kvarn_request request;

    const int64_t t_start = stats.is_set() ? stats.t_start : ggml_time_us();

    request.id_task          = task.id;
    request.id_slot          = id_slot;
    request.t_finish_ms      = unix_time_ms();
    request.t_queue_us       = t_start - task.kvarn_t_made_us;
    request.t_prompt_us      = (int64_t) (stats.t_prompt_ms() * 1000.0);
    request.t_gen_us         = stats.t_gen_us();
    request.n_prompt         = task.tokens.size();
    request.n_cached         = stats.n_prompt_cached;
    request.n_processed      = stats.n_prompt_processed;
    request.n_gen            = stats.n_gen;
    request.n_draft          = stats.n_draft_tokens;
    request.n_draft_accepted = stats.n_draft_accepted;
    request.finish           = finish_of(task, stop);
    request.error            = task.id == id_failed ? error_failed : std::string();

    std::lock_guard<std::mutex> lock(mutex_requests);
    request.seq = ++seq_last;
    requests[request.seq % N_KEPT] = std::move(request);
}

// cache_n, prompt_n, predicted_n, draft_n and the times mean what they mean in the `timings` of a completion
static json to_json(const kvarn_request & request) {
    // the first token arrives at the end of the prompt time; without one there is no time to it
    const bool has_token = request.n_gen > 0;

    return {
        { "seq",              request.seq },
        { "id_task",          request.id_task },
        { "id_slot",          request.id_slot },
        { "finished_unix_ms", request.t_finish_ms },
        { "finish",           request.finish },
        { "error",            request.error },
        { "n_prompt_tokens",  request.n_prompt },
        { "cache_n",          request.n_cached },
        { "prompt_n",         request.n_processed },
        { "predicted_n",      request.n_gen },
        { "queue_ms",         request.t_queue_us  / 1000.0 },
        { "prompt_ms",        request.t_prompt_us / 1000.0 },
        { "predicted_ms",     request.t_gen_us    / 1000.0 },
        { "ttft_ms",          has_token ? json((request.t_queue_us + request.t_prompt_us) / 1000.0) : json(nullptr) },
        { "draft_n",          request.n_draft },
        { "draft_n_accepted", request.n_draft_accepted },
    };
}

static std::vector<kvarn_request> requests_since(uint64_t since, uint64_t & last) {
    std::lock_guard<std::mutex> lock(mutex_requests);

    last = seq_last;
    const uint64_t oldest = last >= N_KEPT ? last - N_KEPT + 1 : 1;

    std::vector<kvarn_request> found;
    for (uint64_t seq = std::max(since + 1, oldest); seq <= last; ++seq) {
        found.push_back(requests[seq % N_KEPT]);
    }
    return found;
}

uint64_t kvarn_requests_last_seq() {
    return seq_last;
}

server_http_res_ptr kvarn_requests_get(const server_http_req & req) {
    auto res = std::make_unique<server_http_res>();

    const std::string since = req.get_param("since", "0");
    if (since.empty() || since.size() > 19 || since.find_first_not_of("0123456789") != std::string::npos) {
        res->status = 400;
        res->data   = safe_json_to_str({{ "error",
            format_error_response("'since' must be the sequence number of a request, 0 or more", ERROR_TYPE_INVALID_REQUEST) }});
        return res;
    }

    uint64_t last = 0;
    json list = json::array();
    for (const auto & request : requests_since(std::strtoull(since.c_str(), nullptr, 10), last)) {
        list.push_back(to_json(request));
    }

    res->data = safe_json_to_str({{ "last_seq", last }, { "kept", N_KEPT }, { "requests", list }});
    return res;
}
