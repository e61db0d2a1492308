#pragma once

// The last finished requests with their timings, without a word of their text: GET /kvarn/requests?since=SEQ
//
// Written by the main thread when a slot is released, read by HTTP threads. A reader holds the lock for one copy of at
// most 256 small structs, so a release waits microseconds at worst; no task is posted and nothing waits for a decode.

#include "server-http.h"
#include "server-task.h"

// told by server_context_impl::send_error(): the task's release that follows is a failure, not a client that left
void kvarn_requests_on_error(int id_task, error_type type, const std::string & error);

// told by the slot's on-reset callback, before stats and task are cleared
void kvarn_requests_on_release(const server_task & task, const server_slot_stats & stats, int id_slot, stop_type stop);

// the sequence number of the newest one, 0 before the first; any thread
uint64_t kvarn_requests_last_seq();

// answers GET /kvarn/requests; `since` is the last sequence number the client has seen
server_http_res_ptr kvarn_requests_get(const server_http_req & req);
