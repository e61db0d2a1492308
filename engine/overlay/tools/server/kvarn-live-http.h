#pragma once

#include "server-http.h"

// GET /live: one JSON snapshot. 503 with a sentence where this process holds no model (a router).
server_http_res_ptr kvarn_live_get(const server_http_req & req);

// GET /live/stream?hz=N: the same as server-sent events, N times a second (1 to 20, 4 when not said). A stream holds one HTTP
// thread, so only KVARN_LIVE_MAX_STREAMS are served at a time; one more gets 503.
server_http_res_ptr kvarn_live_stream(const server_http_req & req);

static constexpr int KVARN_LIVE_MAX_STREAMS = 8;

// ends every stream with a last event; waits a moment for them. Call before the HTTP server is stopped.
void kvarn_live_stop();
