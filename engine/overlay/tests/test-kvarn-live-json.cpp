// The object of GET /live has the names and kinds of values of the captured samples: what the readers were tested on is what
// the engine writes. Arguments: files of engine/protocol/live.samples.

#include "kvarn-live-json.h"

#include <cstdio>
#include <fstream>
#include <sstream>

static int n_failed = 0;

static void fail(const std::string & path, const std::string & why) {
    printf("%s: %s\n", path.c_str(), why.c_str());
    n_failed++;
}

static std::string kind_of(const json & value) {
    return value.is_number() ? "number" : value.is_string() ? "string" : value.is_boolean() ? "boolean" : value.is_array() ? "array" : "object";
}

// `sample` may hold more: sections that are optional, reasons of another version
static void compare(const json & made, const json & sample, const std::string & path) {
    if (made.is_null() || sample.is_null()) {
        return; // any name may be absent at a moment
    }
    if (kind_of(made) != kind_of(sample)) {
        return fail(path, kind_of(made) + ", in the sample " + kind_of(sample));
    }
    if (made.is_array() && !made.empty() && !sample.empty()) {
        return compare(made.at(0), sample.at(0), path + "[0]");
    }
    if (!made.is_object()) {
        return;
    }
    for (const auto & item : made.items()) {
        if (!sample.contains(item.key())) {
            fail(path + "." + item.key(), "not in the sample");
        } else {
            compare(item.value(), sample.at(item.key()), path + "." + item.key());
        }
    }
}

static json made_up() {
    kvarn_live_reading reading = {};
    reading.number = 7;
    reading.engine.n_steps = 3;
    reading.engine.has_prompt_cache  = 1;
    reading.engine.cache_limit_bytes = 1 << 20;
    reading.slots.resize(2);
    reading.slots[0].phase       = KVARN_LIVE_DECODE;
    reading.slots[0].t_start_us  = 1;
    reading.slots[0].n_decoded   = 11;
    reading.slots[0].t_decode_us = 2000000;
    reading.slots[1].id_task     = -1;

    kvarn_live_memory memory;
    memory.caches .push_back({ "target", "full", "f16", "q8_0", 10, 20, 256 });
    memory.buffers.push_back({ "target", "CPU", "CPU", true, 1, 2, 3 });
    memory.devices.push_back({ "CPU", "a processor", 1000, 0, false });
    return kvarn_live_to_json(reading, memory, 42);
}

static void check_values(const json & made) {
    if (made.at("slots").at(0).at("decode_tok_per_s") != 5.0) {
        fail("slots[0].decode_tok_per_s", "the first token is not a step of its own");
    }
    if (!made.at("slots").at(1).at("decode_tok_per_s").is_null() || !made.at("slots").at(1).at("task").is_null()) {
        fail("slots[1]", "what was never measured is null");
    }
    if (made.at("requests").at("processing") != 1 || made.at("seq") != 42 || made.at("published") != 7) {
        fail("root", "wrong numbers");
    }
    if (!made.at("memory").at("devices").at(0).at("free_bytes").is_null()) {
        fail("memory.devices[0].free_bytes", "a CPU does not know it");
    }
}

int main(int argc, char ** argv) {
    const json made = made_up();
    check_values(made);
    for (int i = 1; i < argc; ++i) {
        std::ifstream      file(argv[i]);
        std::ostringstream text;
        text << file.rdbuf();
        compare(made, json::parse(text.str()), argv[i]);
    }
    printf("%d of %d samples read, %d failures\n", argc - 1, argc - 1, n_failed);
    return n_failed ? 1 : 0;
}
