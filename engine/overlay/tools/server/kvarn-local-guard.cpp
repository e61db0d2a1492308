#include "kvarn-local-guard.h"

#include "common.h"
#include "http.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

static std::string lower(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return (char) std::tolower(c); });
    return text;
}

// host of "host", "host:port", "[v6]" or "[v6]:port"; a bare v6 address has more than one colon and no port
static std::string host_of(const std::string & authority) {
    const std::string text = lower(string_strip(authority));
    if (!text.empty() && text[0] == '[') {
        return text.substr(1, text.find(']') - 1);
    }
    const size_t colon = text.find(':');
    return colon == text.rfind(':') ? text.substr(0, colon) : text;
}

bool kvarn_is_loopback(const std::string & authority) {
    const std::string host = host_of(authority);
    if (host == "localhost" || string_ends_with(host, ".localhost") || host == "::1") {
        return true;
    }
    return string_starts_with(host, "127.") && host.find_first_not_of("0123456789.") == std::string::npos;
}

static bool only_loopback(const std::vector<std::string> & listen_hosts) {
    return std::all_of(listen_hosts.begin(), listen_hosts.end(), [](const std::string & host) {
        return string_ends_with(host, ".sock") || kvarn_is_loopback(host);
    });
}

static bool named_by_owner(const std::string & host) {
    const char * allowed = std::getenv("KVARN_ALLOWED_HOSTS");
    for (const std::string & name : string_split<std::string>(allowed ? allowed : "", ',')) {
        if (!string_strip(name).empty() && host_of(name) == host_of(host)) {
            return true;
        }
    }
    return false;
}

static bool is_foreign_page(const httplib::Request & req) {
    const std::string origin = lower(req.get_header_value("Origin"));
    if (origin == "null") {
        return req.method == "POST" && !string_starts_with(lower(req.get_header_value("Content-Type")), "application/json");
    }
    const size_t scheme_end = origin.find("://");
    const std::string scheme = origin.substr(0, scheme_end);
    const bool web = scheme_end != std::string::npos && (scheme == "http" || scheme == "https");
    return web && !kvarn_is_loopback(origin.substr(scheme_end + 3));
}

std::string kvarn_foreign_request(const std::vector<std::string> & listen_hosts, const std::string & cors_origins,
                                  const httplib::Request & req) {
    const std::string host = req.get_header_value("Host");
    if (!host.empty() && only_loopback(listen_hosts) && !kvarn_is_loopback(host) &&
        !string_ends_with(host_of(host), ".internal") && !named_by_owner(host)) {
        return "this endpoint serves this machine only, under localhost or 127.0.0.1; the Host header names another, "
               "which KVARN_ALLOWED_HOSTS may allow";
    }
    if (cors_origins == "localhost" && is_foreign_page(req)) {
        return "web pages from elsewhere may not use this endpoint; --cors-origins names those that may";
    }
    return "";
}

std::string kvarn_api_key_of(const std::string & header) {
    const std::string text = string_strip(header);
    const std::string scheme = "bearer";
    const bool has_scheme = text.size() > scheme.size() && lower(text.substr(0, scheme.size())) == scheme &&
                            std::isspace((unsigned char) text[scheme.size()]);
    return has_scheme ? string_strip(text.substr(scheme.size())) : text;
}
