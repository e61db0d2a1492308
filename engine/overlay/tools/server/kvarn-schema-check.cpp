#include "kvarn-schema-check.h"

#include "kvarn-number-range.h"
#include "kvarn-pattern-problem.h"

#include <climits>
#include <initializer_list>
#include <set>
#include <stdexcept>
#include <vector>

using json = common_json;
using names = std::vector<const char *>;

static constexpr int MAX_HOPS = 100; // from $ref to $ref; more is a circle

// Keywords that restrict a value, by the type of value they speak about. All others are annotations.
static const names ANY_RULES    = { "$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "not", "if", "const", "enum" };
static const names STRING_RULES = { "pattern", "format", "minLength", "maxLength" };
static const names NUMBER_RULES = { "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf" };
static const names OBJECT_RULES = { "properties", "required", "additionalProperties", "patternProperties", "propertyNames",
                                    "minProperties", "maxProperties", "dependentRequired", "dependentSchemas",
                                    "dependencies", "unevaluatedProperties" };
static const names ARRAY_RULES  = { "items", "prefixItems", "additionalItems", "minItems", "maxItems", "uniqueItems",
                                    "contains", "unevaluatedItems" };

class kvarn_schema_checker {
  public:
    kvarn_schema_checker(const json & root, bool strict) : root(root), strict(strict) {}

    // Recursion is bounded by the nesting of the request (kvarn_check_nesting).
    json check(const json & schema, const std::string & path) {
        if (schema.is_boolean()) {
            if (!schema.get<bool>()) {
                throw std::invalid_argument("JSON schema at " + path + " is false: no answer could satisfy it");
            }
            return json::object();
        }
        if (!schema.is_object()) {
            throw std::invalid_argument("JSON schema at " + path + " must be an object or true");
        }
        json node = schema;
        check_children(node, path);
        if (can_unwrap_all_of(node)) {
            node = json(node.at("allOf").at((size_t) 0));
        }
        settle_tuple(node);
        check_node(node, path);
        return node;
    }

  private:
    const json & root;
    const bool   strict;

    [[noreturn]] static void cannot(const std::string & path, const std::string & keyword, const std::string & why = "") {
        throw std::invalid_argument("JSON schema: the rule '" + keyword + "' at " + path + " cannot be enforced here" +
                                    (why.empty() ? "" : " (" + why + ")") + "; leave it out and check the answer yourself");
    }

    // Refuse any of these rules that stands in the node and is not among those the branch honours.
    static void only(const json & node, const std::string & path, const names & rules, const std::set<std::string> & honoured) {
        for (const char * rule : rules) {
            if (node.contains(rule) && !honoured.count(rule) && !says_nothing(rule, node.at(rule))) {
                cannot(path, rule);
            }
        }
    }

    // A rule that every value satisfies.
    static bool says_nothing(const std::string & rule, const json & value) {
        if (rule == "uniqueItems") {
            return value == false;
        }
        if (rule == "additionalProperties" || rule == "unevaluatedProperties" || rule == "unevaluatedItems") {
            return value == true;
        }
        if (rule == "propertyNames") {
            return value == true || (value.is_object() && (value.empty() || value == json { { "type", "string" } }));
        }
        if (rule == "minItems" || rule == "minLength" || rule == "minProperties") {
            return value == 0;
        }
        return rule == "multipleOf" && value == 1;
    }

    void check_children(json & node, const std::string & path) {
        for (const char * key : { "$defs", "definitions", "properties" }) {
            if (node.contains(key) && node.at(key).is_object()) {
                const json children = node.at(key);
                for (const auto & [name, child] : children.items()) {
                    node[key][name] = check(child, path + "/" + key + "/" + name);
                }
            }
        }
        for (const char * key : { "allOf", "anyOf", "oneOf", "items", "prefixItems" }) {
            if (node.contains(key) && node.at(key).is_array()) {
                for (size_t i = 0; i < node.at(key).size(); i++) {
                    give_type(node, key, node[key][i]);
                    node[key][i] = check(json(node.at(key).at(i)), path + "/" + key + "/" + std::to_string(i));
                }
            }
        }
        if (node.contains("items") && !node.contains("prefixItems") && !node.at("items").is_array()) {
            node["items"] = check(json(node.at("items")), path + "/items");
        }
        if (node.contains("additionalProperties") && node.at("additionalProperties").is_object()) {
            node["additionalProperties"] = check(json(node.at("additionalProperties")), path + "/additionalProperties");
        }
    }

    // {"type": T, "anyOf": [{...}]}: the outer type holds for alternatives that state none, but the converter forgets it.
    static void give_type(const json & node, const std::string & key, json & alternative) {
        if ((key != "anyOf" && key != "oneOf") || !node.contains("type") || !alternative.is_object()) {
            return;
        }
        for (const char * own : { "type", "$ref", "const", "enum", "anyOf", "oneOf", "allOf" }) {
            if (alternative.contains(own)) {
                return;
            }
        }
        alternative["type"] = node.at("type");
    }

    // {"allOf": [X]} with nothing beside it is X.
    static bool can_unwrap_all_of(const json & node) {
        if (!node.contains("allOf") || !node.at("allOf").is_array() || node.at("allOf").size() != 1) {
            return false;
        }
        for (const names & rules : { ANY_RULES, STRING_RULES, NUMBER_RULES, OBJECT_RULES, ARRAY_RULES }) {
            for (const char * rule : rules) {
                if (std::string(rule) != "allOf" && node.contains(rule)) {
                    return false;
                }
            }
        }
        return !node.contains("$defs") && !node.contains("definitions");
    }

    // A tuple is written with exactly its listed items, so what may follow them does not matter.
    static void settle_tuple(json & node) {
        if (node.contains("prefixItems") && node.at("prefixItems").is_array()) {
            node.erase("items");
        }
    }

    //
    // the converter's branches, in its order
    //

    void check_node(const json & node, const std::string & path) {
        if (node.contains("$ref")) {
            return only_rule(node, path, "$ref");
        }
        if (node.contains("oneOf") || node.contains("anyOf")) {
            return only_rule(node, path, node.contains("oneOf") ? "oneOf" : "anyOf");
        }
        if (!node.contains("type")) {
            return check_untyped(node, path);
        }
        const json types = node.at("type").is_array() ? json(node.at("type")) : json::array({ node.at("type") });
        for (const auto & type : types) {
            if (!type.is_string()) {
                throw std::invalid_argument("JSON schema at " + path + ": 'type' must be a string or a list of strings");
            }
            check_typed(node, path, type.get<std::string>());
        }
    }

    static void only_rule(const json & node, const std::string & path, const std::string & rule) {
        for (const names & rules : { ANY_RULES, STRING_RULES, NUMBER_RULES, OBJECT_RULES, ARRAY_RULES }) {
            for (const char * other : rules) {
                if (node.contains(other) && other != rule) {
                    cannot(path, other, rule.empty() ? "" : "it stands beside '" + rule + "'");
                }
            }
        }
    }

    static bool is_object_node(const json & node) {
        return node.contains("properties") ||
               (node.contains("additionalProperties") && node.at("additionalProperties") != true);
    }

    void check_untyped(const json & node, const std::string & path) {
        if (node.contains("const") || node.contains("enum")) {
            return only_rule(node, path, node.contains("const") ? "const" : "enum");
        }
        if (is_object_node(node)) {
            return check_object(node, path);
        }
        if (node.contains("allOf")) {
            return check_all_of(node, path);
        }
        if (node.contains("items") || node.contains("prefixItems")) {
            return check_array(node, path);
        }
        if (node.contains("pattern") || node.contains("minLength") || node.contains("maxLength") || knows_format(node)) {
            return check_string(node, path);
        }
        only_rule(node, path, ""); // any value: nothing would be enforced
    }

    void check_typed(const json & node, const std::string & path, const std::string & type) {
        if (node.contains("const") || node.contains("enum")) {
            return only_rule(node, path, node.contains("const") ? "const" : "enum");
        }
        if (node.contains("allOf") && ((type == "object" && !is_object_node(node)) || type == "string")) {
            return check_all_of(node, path);
        }
        only(node, path, ANY_RULES, {});
        if (type == "object") {
            check_object(node, path);
        } else if (type == "array") {
            check_array(node, path);
        } else if (type == "string") {
            check_string(node, path);
        } else if (type == "integer") {
            check_integer(node, path);
        } else if (type == "number") {
            check_number(node, path);
        }
    }

    void check_object(const json & node, const std::string & path) {
        only(node, path, ANY_RULES, {});
        std::set<std::string> honoured = { "properties", "required", "additionalProperties" };
        if (node.contains("properties") && !node.contains("additionalProperties")) {
            honoured.insert("unevaluatedProperties"); // then only the listed ones are written
        }
        only(node, path, OBJECT_RULES, honoured);
        if (!node.contains("required")) {
            return;
        }
        for (const auto & name : node.at("required")) {
            const bool listed = name.is_string() && node.contains("properties") &&
                                node.at("properties").contains(name.get<std::string>());
            if (!listed) {
                cannot(path, "required", "it names a property that 'properties' does not list");
            }
        }
    }

    void check_array(const json & node, const std::string & path) {
        only(node, path, ANY_RULES, {});
        check_counts(node, path, { "minItems", "maxItems" });
        const char * key = node.contains("items") ? "items" : "prefixItems";
        if (!node.contains(key) || !node.at(key).is_array()) {
            return only(node, path, ARRAY_RULES, { "items", "minItems", "maxItems", "additionalItems" });
        }
        only(node, path, ARRAY_RULES, { key, "minItems", "maxItems", "additionalItems", "unevaluatedItems" });
        const int n_items = (int) node.at(key).size();
        if (node.contains("minItems") && node.at("minItems").get<int>() > n_items) {
            cannot(path, "minItems", "the tuple lists fewer items");
        }
        if (node.contains("maxItems") && node.at("maxItems").get<int>() < n_items) {
            cannot(path, "maxItems", "the tuple lists more items");
        }
    }

    void check_string(const json & node, const std::string & path) {
        only(node, path, ANY_RULES, {});
        check_counts(node, path, { "minLength", "maxLength" });
        if (node.contains("pattern") && node.at("pattern").is_string()) {
            only(node, path, STRING_RULES, { "pattern" });
            const std::string problem = kvarn_pattern_problem(node.at("pattern"));
            if (!problem.empty()) {
                cannot(path, "pattern", problem);
            }
        } else if (knows_format(node)) {
            only(node, path, STRING_RULES, { "format" });
        } else if (strict) {
            only(node, path, STRING_RULES, { "minLength", "maxLength" });
        }
    }

    static bool knows_format(const json & node) {
        if (!node.contains("format") || !node.at("format").is_string()) {
            return false;
        }
        static const std::set<std::string> known = { "date",  "time",  "date-time", "uuid", "uuid1",
                                                     "uuid2", "uuid3", "uuid4",     "uuid5" };
        return known.count(node.at("format").get<std::string>()) > 0;
    }

    static void check_counts(const json & node, const std::string & path, const names & keys) {
        for (const char * key : keys) {
            if (!node.contains(key)) {
                continue;
            }
            const json & count = node.at(key);
            if (!count.is_number_integer() || count.get<int64_t>() < 0 || count.get<int64_t>() > INT_MAX) {
                throw std::invalid_argument("JSON schema at " + path + ": '" + key + "' must be a whole number of at least 0");
            }
        }
    }

    void check_integer(const json & node, const std::string & path) {
        only(node, path, NUMBER_RULES, { "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum" });
        for (const auto & [bound, exclusive] : { std::pair("minimum", "exclusiveMinimum"), std::pair("maximum", "exclusiveMaximum") }) {
            if (node.contains(bound) && node.contains(exclusive)) {
                cannot(path, exclusive, std::string("it stands beside '") + bound + "'");
            }
        }
    }

    void check_number(const json & node, const std::string & path) {
        check_integer(node, path);
        for (const char * bound : { "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum" }) {
            if (node.contains(bound) && !kvarn_whole_bound(node, bound)) {
                cannot(path, bound, "only a whole number can bound a number");
            }
        }
    }

    // The converter joins the properties of plain objects, or intersects enums, and forgets any other part.
    void check_all_of(const json & node, const std::string & path) {
        only_rule(node, path, "allOf");
        bool all_enums = true;
        bool all_plain = true;
        for (const auto & part : node.at("allOf")) {
            const json & target = resolve(part);
            all_enums = all_enums && target.contains("enum");
            all_plain = all_plain && target.contains("properties") && !target.contains("enum") && !target.contains("anyOf") &&
                        (!target.contains("additionalProperties") || target.at("additionalProperties") == false);
        }
        if (!all_enums && !all_plain) {
            cannot(path, "allOf", "only objects with 'properties' can be joined");
        }
    }

    const json & resolve(const json & part) const {
        const json * node = &part;
        for (int hops = 0; hops < MAX_HOPS && node->contains("$ref") && node->at("$ref").is_string(); hops++) {
            node = &follow(node->at("$ref").get<std::string>());
        }
        return *node;
    }

    const json & follow(const std::string & ref) const {
        const json * node = &root;
        for (size_t at = ref.find('/'); at != std::string::npos;) {
            const size_t next = ref.find('/', at + 1);
            const std::string name = ref.substr(at + 1, next == std::string::npos ? next : next - at - 1);
            if (!node->is_object() || !node->contains(name)) {
                throw std::invalid_argument("JSON schema: $ref " + ref + " leads nowhere");
            }
            node = &node->at(name);
            at = next;
        }
        return *node;
    }
};

json kvarn_checked_schema(const json & schema, bool strict) {
    return kvarn_schema_checker(schema, strict).check(schema, "#");
}
