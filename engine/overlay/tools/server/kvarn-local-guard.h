#pragma once

// Who may talk to an endpoint that listens on this machine only. A web page the user happens to visit can send requests
// to 127.0.0.1; the Host and Origin headers, which it cannot forge, say so.

#include <string>
#include <vector>

namespace httplib {
struct Request;
}

// "localhost", "*.localhost", 127.0.0.0/8 or ::1, with or without brackets and port, in any case.
bool kvarn_is_loopback(const std::string & authority);

// Why this request is refused (403), or "" when it may pass.
// Host: checked while every listener is a loopback address or a socket file. `*.internal` passes: nobody can own such a name
// (containers call this machine host.docker.internal). KVARN_ALLOWED_HOSTS (comma-separated) names more.
// Origin: while --cors-origins is `localhost`, a web origin (http, https) must be loopback. Apps' own schemes pass. Any page
// can make its origin `null`, but then has to ask before it sends JSON: only what it may send unasked is refused.
std::string kvarn_foreign_request(const std::vector<std::string> & listen_hosts, const std::string & cors_origins,
                                  const httplib::Request & req);

// The key inside an Authorization or X-Api-Key header: the scheme `Bearer` in any case, blanks around the key ignored.
std::string kvarn_api_key_of(const std::string & header);
