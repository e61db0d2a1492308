#include "kvarn-live-http.h"

#include "kvarn-live-json.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

using live_clock = std::chrono::steady_clock;

static constexpr int DEFAULT_HZ = 4;
static constexpr int MAX_HZ     = 20;

static std::atomic<uint64_t> n_answers { 0 };

// Only streams and the stop of the server meet here.
static std::mutex              mutex_streams;
static std::condition_variable condition_streams;
static int                     n_streams   = 0;
static bool                    is_stopping = false;

static bool snapshot_text(std::string & text) {
    kvarn_live_reading reading;
    if (!kvarn_live_read(reading)) {
        return false;
    }
    text = safe_json_to_str(kvarn_live_to_json(reading, kvarn_live_memory_read(), ++n_answers));
    return true;
}

static server_http_res_ptr refuse(int status, error_type type, const std::string & why) {
    auto res = std::make_unique<server_http_res>();
    res->status = status;
    res->data   = safe_json_to_str({{ "error", format_error_response(why, type) }});
    return res;
}

static server_http_res_ptr refuse_without_engine() {
    return refuse(503, ERROR_TYPE_UNAVAILABLE, "this process holds no model; ask the server that does");
}

server_http_res_ptr kvarn_live_get(const server_http_req &) {
    auto res = std::make_unique<server_http_res>();
    res->headers["Cache-Control"] = "no-store";
    return snapshot_text(res->data) ? std::move(res) : refuse_without_engine();
}

namespace {

// Counts as a stream for as long as httplib keeps it.
struct live_stream : server_http_res {
    const server_http_req & req;
    live_clock::duration    period;
    live_clock::time_point  due = live_clock::now(); // the first event comes at once

    live_stream(const server_http_req & req, int hz) :
        req(req), period(std::chrono::duration_cast<live_clock::duration>(std::chrono::duration<double>(1.0/hz))) {
        content_type = "text/event-stream";
        headers["Cache-Control"] = "no-store";
        next = [this](std::string & out) { return event(out); };
    }

    ~live_stream() override {
        std::lock_guard<std::mutex> lock(mutex_streams);
        n_streams--;
        condition_streams.notify_all();
    }

private:
    // false: that was the last one
    bool event(std::string & out) {
        {
            std::unique_lock<std::mutex> lock(mutex_streams);
            condition_streams.wait_until(lock, due, []() { return is_stopping; });
            if (is_stopping) {
                out = "event: end\ndata: {\"reason\":\"the engine stops\"}\n\n";
                return false;
            }
        }
        // a late event does not make the next one early
        due = std::max(due + period, live_clock::now() + 9*period/10);

        std::string text;
        if (req.should_stop() || !snapshot_text(text)) {
            return false;
        }
        out = "data: " + text + "\n\n";
        return true;
    }
};

} // namespace

// 0 unless it is a whole number from 1 to MAX_HZ
static int parse_hz(const std::string & text) {
    if (text.empty() || text.size() > 2 || text.find_first_not_of("0123456789") != std::string::npos) {
        return 0;
    }
    const int hz = std::stoi(text);
    return hz <= MAX_HZ ? hz : 0;
}

server_http_res_ptr kvarn_live_stream(const server_http_req & req) {
    const int hz = parse_hz(req.get_param("hz", std::to_string(DEFAULT_HZ)));
    if (hz == 0) {
        return refuse(400, ERROR_TYPE_INVALID_REQUEST, "'hz' must be a whole number of events a second, 1 to " + std::to_string(MAX_HZ));
    }
    kvarn_live_reading reading;
    if (!kvarn_live_read(reading)) {
        return refuse_without_engine();
    }
    {
        std::lock_guard<std::mutex> lock(mutex_streams);
        if (is_stopping) {
            return refuse(503, ERROR_TYPE_UNAVAILABLE, "the engine stops");
        }
        if (n_streams >= KVARN_LIVE_MAX_STREAMS) {
            return refuse(503, ERROR_TYPE_UNAVAILABLE, "all " + std::to_string(KVARN_LIVE_MAX_STREAMS) +
                          " live streams are in use; end one, or ask GET /live now and then");
        }
        n_streams++;
    }
    return std::make_unique<live_stream>(req, hz);
}

void kvarn_live_stop() {
    std::unique_lock<std::mutex> lock(mutex_streams);
    is_stopping = true;
    condition_streams.notify_all();
    condition_streams.wait_for(lock, std::chrono::seconds(1), []() { return n_streams == 0; });
    lock.unlock();

    kvarn_live_memory_stop();
}
