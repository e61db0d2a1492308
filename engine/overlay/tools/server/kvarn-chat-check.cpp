#include "kvarn-chat-check.h"
#include "kvarn-request-check.h"
#include "kvarn-schema-check.h"

#include "chat.h"

#include <set>
#include <stdexcept>

[[noreturn]] static void refuse(const std::string & why) {
    throw std::invalid_argument(why);
}

static std::string quote(const std::string & text) {
    return "'" + kvarn_shorten(text, KVARN_QUOTE_BYTES) + "'";
}

// null is absent
static bool has(const json & object, const char * key) {
    return object.contains(key) && !object.at(key).is_null();
}

static void drop_null(json & object, const char * key) {
    if (object.is_object() && object.contains(key) && object.at(key).is_null()) {
        object.erase(key);
    }
}

//
// chat messages
//

// The roles every chat template is written for, and those this model's own template names in quotes.
static bool knows_role(const std::string & role, const server_chat_params & opt) {
    static const std::set<std::string> common = { "system", "developer", "user", "assistant", "tool", "function" };
    if (common.count(role)) {
        return true;
    }
    const std::string word   = role.substr(0, role.find(' '));
    const std::string source = common_chat_templates_source(opt.tmpls.get());
    return !word.empty() && (source.find("'" + word + "'") != std::string::npos ||
                             source.find("\"" + word + "\"") != std::string::npos);
}

static void check_media_part(const json & part, const std::string & type, const std::string & where,
                             const server_chat_params & opt) {
    const bool image = type == "image_url";
    const bool audio = type == "input_audio";
    if (image ? !opt.allow_image : audio ? !opt.allow_audio : !opt.allow_video) {
        const std::string model_name = opt.model_name.substr(opt.model_name.find_last_of("/\\") + 1);
        const std::string sense = image ? "images" : audio ? "audio" : "video";
        refuse(where + " holds " + sense + ", but the model '" + model_name + "' as loaded reads no " + sense +
               "; load one with its mmproj file, or send text only");
    }
    const json media = json_value(part, type, json::object());
    const std::string url = json_value(media, "url", json_value(media, "data", std::string()));
    if (string_starts_with(url, "http://") || string_starts_with(url, "https://")) {
        refuse(where + " names an address; this endpoint fetches nothing, send the bytes as a data: URL");
    }
}

static void check_part(const json & part, const std::string & where, const server_chat_params & opt) {
    static const std::set<std::string> media = { "image_url", "input_audio", "input_video", "video_url" };
    if (!part.is_object() || !part.contains("type") || !part.at("type").is_string()) {
        refuse(where + " has no 'type'");
    }
    const std::string type = part.at("type");
    if (media.count(type)) {
        check_media_part(part, type, where, opt);
    } else if (type != "text") {
        refuse(where + " has the unsupported type " + quote(type) + "; text, image_url, input_audio and input_video exist");
    } else if (!part.contains("text") || !part.at("text").is_string()) {
        refuse(where + " is a text part whose 'text' is not a string");
    }
}

static void check_content(const json & message, const std::string & where, const server_chat_params & opt) {
    const json & content = message.at("content");
    if (content.is_array()) {
        size_t i = 0;
        for (const auto & part : content) {
            check_part(part, where + ".content[" + std::to_string(i++) + "]", opt);
        }
    } else if (!content.is_string() && !content.is_null()) {
        refuse(where + ".content must be a string, a list of parts or null");
    }
}

static void check_tool_calls(const json & calls, const std::string & where) {
    if (calls.is_null()) {
        return;
    }
    if (!calls.is_array()) {
        refuse(where + ".tool_calls must be a list");
    }
    size_t i = 0;
    for (const auto & call : calls) {
        const std::string here = where + ".tool_calls[" + std::to_string(i++) + "]";
        if (!call.is_object() || !call.contains("function") || !call.at("function").is_object()) {
            refuse(here + " has no 'function'");
        }
        if (call.contains("id") && !call.at("id").is_string()) {
            refuse(here + ".id must be a string");
        }
        const json & function = call.at("function");
        if (!function.contains("name") || !function.at("name").is_string()) {
            refuse(here + ".function.name must be a string");
        }
        if (!function.contains("arguments")) {
            refuse(here + ".function.arguments is missing");
        }
    }
}

static void check_message(const json & message, const std::string & where, const server_chat_params & opt) {
    if (!message.is_object()) {
        refuse(where + " must be an object with 'role' and 'content'");
    }
    if (!message.contains("role") || !message.at("role").is_string()) {
        refuse(where + " has no 'role'");
    }
    const std::string role = message.at("role");
    if (!knows_role(role, opt)) {
        refuse(where + " has the role " + quote(role) + ", which this model's template does not name; use system, user, assistant or tool");
    }
    for (const char * name : { "name", "tool_call_id", "reasoning_content" }) {
        if (message.contains(name) && !message.at(name).is_string()) {
            refuse(where + "." + name + " must be a string");
        }
    }
    if (message.contains("tool_calls")) {
        check_tool_calls(message.at("tool_calls"), where);
    }
    const bool has_calls = message.contains("tool_calls") && message.at("tool_calls").is_array();
    if (!message.contains("content")) {
        if (role != "assistant" || !has_calls) {
            refuse(where + (role == "assistant" ? " has neither 'content' nor 'tool_calls'" : " has no 'content'"));
        }
    } else {
        check_content(message, where, opt);
    }
}

static void check_messages(json & body, const server_chat_params & opt) {
    if (!body.contains("messages") || !body.at("messages").is_array()) {
        refuse("'messages' is required and must be a list");
    }
    json & messages = body.at("messages");
    if (messages.empty()) {
        refuse("'messages' is empty; at least one message is needed");
    }
    size_t i = 0;
    for (auto & message : messages) {
        // vLLM answers with this null, and clients send the turn back as they got it
        drop_null(message, "reasoning_content");
        check_message(message, "messages[" + std::to_string(i++) + "]", opt);
    }
}

//
// tools and the form of the answer
//

static void check_tools(json & body) {
    if (!has(body, "tools")) {
        return;
    }
    if (!body.at("tools").is_array()) {
        refuse("'tools' must be a list");
    }
    size_t i = 0;
    for (auto & tool : body.at("tools")) {
        const std::string where = "tools[" + std::to_string(i++) + "]";
        if (!tool.is_object() || json_value(tool, "type", std::string()) != "function") {
            refuse(where + " must be an object of type 'function'");
        }
        if (!tool.contains("function") || !tool.at("function").is_object()) {
            refuse(where + " has no 'function'");
        }
        json & function = tool.at("function");
        if (!function.contains("name") || !function.at("name").is_string()) {
            refuse(where + ".function.name must be a string");
        }
        drop_null(function, "description"); // tools from MCP servers may lack one
        // a tool's schema is a description for the model, and binding only where the client says so
        if (function.contains("strict") && function.at("strict") == true && has(function, "parameters")) {
            function["parameters"] = kvarn_checked_schema(function.at("parameters"), true);
        }
    }
}

// A template without tools would pass over a required call in silence; with "auto" the model may answer in words anyway.
static void check_tool_choice(const json & body, const server_chat_params & opt) {
    auto caps = common_chat_templates_get_caps(opt.tmpls.get());
    const bool can_call = caps["supports_tools"] || caps["supports_tool_calls"];
    if (!can_call && json_value(body, "tool_choice", std::string()) == "required") {
        refuse("'tool_choice' requires a tool, but this model's chat template cannot call tools");
    }
}

// {"type":"function","function":{"name":"x"}}, or with the name beside the type as in /v1/responses, asks for that tool and
// no other; {"type":"auto"} and its like are the plain word.
static void choose_named_tool(json & body) {
    if (!has(body, "tool_choice") || body.at("tool_choice").is_string()) {
        return;
    }
    const json choice      = body.at("tool_choice");
    const std::string type = json_value(choice, "type", std::string());
    if (type == "auto" || type == "none" || type == "required") {
        body["tool_choice"] = type;
        return;
    }
    const json function    = json_value(choice, "function", json::object());
    const std::string name = json_value(function, "name", json_value(choice, "name", std::string()));
    json chosen = json::array();
    for (const auto & tool : json_value(body, "tools", json::array())) {
        if (tool.at("function").at("name") == name) {
            chosen.push_back(tool);
        }
    }
    if (name.empty() || chosen.empty()) {
        refuse("'tool_choice' must be auto, none, required or name one of 'tools'");
    }
    body["tools"]       = chosen;
    body["tool_choice"] = "required";
}

// Enforced whole or refused. An outspoken "strict": false asks for upstream's best effort, as with a tool.
static json checked_answer_schema(const json & wrapper) {
    const json & schema = wrapper.at("schema");
    try {
        return kvarn_checked_schema(schema, json_value(wrapper, "strict", false));
    } catch (const std::invalid_argument &) {
        if (schema.is_object() && has(wrapper, "strict") && wrapper.at("strict") == false) {
            return schema;
        }
        throw;
    }
}

static void check_response_format(json & body) {
    if (has(body, "json_schema")) {
        body["json_schema"] = kvarn_checked_schema(body.at("json_schema"), false);
    }
    if (!has(body, "response_format") && has(body, "text") && has(body.at("text"), "format")) {
        body["response_format"] = json(body.at("text").at("format")); // where /v1/responses has it
    }
    if (!has(body, "response_format")) {
        return;
    }
    json & format = body.at("response_format");
    if (!format.is_object()) {
        refuse("'response_format' must be an object such as {\"type\": \"json_object\"}");
    }
    const std::string type = json_value(format, "type", std::string("text"));
    if (type != "text" && type != "json_object" && type != "json_schema") {
        refuse("'response_format.type' must be text, json_object or json_schema, but is " + quote(type));
    }
    if (type == "json_object" && has(format, "schema")) {
        format["schema"] = kvarn_checked_schema(format.at("schema"), false);
    }
    if (type != "json_schema") {
        return;
    }
    if (!has(format, "json_schema") && has(format, "schema")) {
        format["json_schema"] = json(format);
    }
    if (!has(format, "json_schema") || !format.at("json_schema").is_object() || !has(format.at("json_schema"), "schema")) {
        refuse("'response_format.json_schema.schema' is missing");
    }
    json & wrapper = format.at("json_schema");
    wrapper["schema"] = checked_answer_schema(wrapper);
}

void kvarn_check_chat_request(json & body, const server_chat_params & opt) {
    if (!body.is_object()) {
        refuse("The request body must be a JSON object.");
    }
    check_messages(body, opt);
    check_tools(body);
    choose_named_tool(body);
    check_tool_choice(body, opt);
    check_response_format(body);
    if (body.contains("stop")) {
        kvarn_check_stop(body.at("stop"));
    }
}
