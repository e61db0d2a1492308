"""A JSON schema is enforced whole, or refused with the keyword that cannot be."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.engine

CHAT = "/v1/chat/completions"
ON_ONE_LINE = {"\n": False, "\n\n": False}  # a small model spends its tokens on blank lines otherwise


@pytest.fixture(scope="module")
def server(start_server):
    with start_server("-c", "2048", "-np", "2", "-t", "1", "--alias", "starter") as running:
        yield running


def ask(server, schema, strict=True, max_tokens=1):
    wrapped = {"type": "json_schema", "json_schema": {"name": "answer", "strict": strict, "schema": schema}}
    body = {"max_tokens": max_tokens, "temperature": 0, "messages": [{"role": "user", "content": "Give one word."}]}
    return server.http.post(CHAT, json=body | {"response_format": wrapped, "logit_bias": ON_ONE_LINE})


def inside(rule: dict) -> dict:
    return {"type": "object", "properties": {"v": rule}, "required": ["v"], "additionalProperties": False}


TEXT = {"type": "string"}
PART = {"type": "object", "properties": {"a": TEXT}}
NOT_ENFORCEABLE = {
    "pattern": [TEXT | {"pattern": p} for p in (r"^yes\!$", "^(?=a)a+$", "[0-9]+", "^a$|^b$", r"^\d+$")],
    "maxLength": [TEXT | {"pattern": "^a+$", "maxLength": 3}],
    "minLength": [TEXT | {"format": "date", "minLength": 3}],
    "format": [TEXT | {"format": "email"}],
    "not": [{"not": TEXT}, TEXT | {"not": {"const": "x"}}],
    "if": [PART | {"if": {"required": ["a"]}, "then": {"required": ["b"]}}],
    "multipleOf": [{"type": "integer", "multipleOf": 5}, {"type": "number", "multipleOf": 0.1}],
    "uniqueItems": [{"type": "array", "items": TEXT, "uniqueItems": True}],
    "contains": [{"type": "array", "contains": TEXT}],
    "minItems": [{"type": "array", "prefixItems": [TEXT], "minItems": 2}],
    "patternProperties": [{"type": "object", "patternProperties": {"^a": TEXT}}],
    "propertyNames": [{"type": "object", "propertyNames": {"pattern": "^a$"}}],
    "minProperties": [PART | {"minProperties": 1}],
    "dependentRequired": [PART | {"dependentRequired": {"a": ["b"]}}],
    "required": [{"type": "object", "required": ["a"]}, {"anyOf": [PART], "required": ["a"]}],
    "properties": [{"anyOf": [{"type": "object"}], "properties": {"a": TEXT}}],
    "enum": [{"$ref": "#/properties/v/items", "enum": ["a"], "items": TEXT}],
    "allOf": [{"allOf": [TEXT, {"minLength": 2}]}, PART | {"allOf": [PART]}],
    "minimum": [{"minimum": 3}, {"type": "number", "minimum": 0.5}],
    "exclusiveMinimum": [{"type": "integer", "minimum": 1, "exclusiveMinimum": 1}],
}


@pytest.mark.parametrize(
    ("keyword", "rule"),
    [pytest.param(k, rule, id=f"{k}-{n}") for k, rules in NOT_ENFORCEABLE.items() for n, rule in enumerate(rules)],
)
def test_a_rule_the_grammar_cannot_hold_is_refused_by_name(server, keyword, rule):
    answer = ask(server, inside(rule))
    assert answer.status_code == 400, answer.text
    message = answer.json()["error"]["message"]
    assert f"'{keyword}'" in message
    assert "#/properties/v" in message


def test_the_same_holds_for_a_schema_given_to_completion_and_for_a_strict_tool(server):
    schema = inside(TEXT | {"pattern": "[0-9]+"})
    answer = server.http.post("/completion", json={"prompt": "x", "n_predict": 1, "json_schema": schema})
    assert answer.status_code == 400
    assert "'pattern'" in answer.text
    for strict, status in ((True, 400), (False, 200)):
        tool = {"type": "function", "function": {"name": "f", "strict": strict, "parameters": schema}}
        body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1, "tools": [tool]}
        assert server.http.post(CHAT, json=body).status_code == status


@pytest.mark.parametrize("schema", [False, 5, "x", inside(False), inside({"type": "nonsense"})])
def test_a_schema_that_nothing_satisfies_is_refused(server, schema):
    assert ask(server, schema).status_code == 400


ANNOTATED = {"title": "T", "description": "d", "default": "x", "examples": ["x"], "$comment": "c", "deprecated": False}
ENFORCED = [
    (inside(TEXT | {"pattern": "^yes$"}), lambda v: v == {"v": "yes"}),
    (inside(TEXT | {"pattern": "^[0-9]{3}$"}), lambda v: v["v"].isdigit() and len(v["v"]) == 3),
    (inside({"enum": ["yes"]} | ANNOTATED), lambda v: v == {"v": "yes"}),
    (
        inside({"allOf": [{"$ref": "#/$defs/Y"}], "description": "d"}) | {"$defs": {"Y": {"const": 7}}},
        lambda v: v == {"v": 7},
    ),
    (inside({"type": "integer", "minimum": 3, "maximum": 3}), lambda v: v == {"v": 3}),
    (inside({"type": "number", "minimum": 0, "maximum": 1}), lambda v: 0 <= v["v"] <= 1),
    (inside({"type": "number", "minimum": 250, "maximum": 1000}), lambda v: 250 <= v["v"] <= 1000),
    (inside({"type": "number", "exclusiveMinimum": -1, "exclusiveMaximum": 0}), lambda v: -1 < v["v"] < 0),
    (inside({"type": "number", "exclusiveMinimum": 7, "maximum": 8}), lambda v: 7 < v["v"] <= 8),
    (inside({"type": "number", "maximum": -5}), lambda v: v["v"] <= -5),
    (inside({"type": "number", "minimum": 3, "maximum": 3}), lambda v: v["v"] == 3),
    (
        inside({"type": "array", "prefixItems": [{"const": 1}], "items": False, "minItems": 1}),
        lambda v: v == {"v": [1]},
    ),
    (
        inside({"type": "array", "items": {"const": True}, "minItems": 2, "maxItems": 2}),
        lambda v: v == {"v": [True] * 2},
    ),
    (inside({"type": "string", "anyOf": [{"maxLength": 1}]}), lambda v: len(v["v"]) <= 1),
]


@pytest.mark.parametrize(("schema", "holds"), ENFORCED, ids=[str(n) for n in range(len(ENFORCED))])
def test_what_is_accepted_is_obeyed(server, schema, holds):
    assert holds(answer_to(ask(server, schema, max_tokens=60)))


@pytest.mark.parametrize("schema", [True, {}])
def test_a_schema_that_allows_everything_still_gives_json(server, schema):
    bound = {"messages": [{"role": "user", "content": "Say {}"}], "max_tokens": 100, "temperature": 0}
    form = {"type": "json_schema", "json_schema": {"schema": schema}}
    answer = server.http.post(CHAT, json=bound | {"response_format": form, "logit_bias": ON_ONE_LINE | {"}": 100}})
    assert isinstance(answer_to(answer), dict)


def test_a_schema_given_beside_the_type_is_obeyed(server):
    form = {"type": "json_schema", "schema": inside({"const": 7})}
    body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 60, "temperature": 0}
    assert answer_to(server.http.post(CHAT, json=body | {"response_format": form})) == {"v": 7}


def test_a_schema_given_in_the_responses_dialect_is_obeyed(server):
    form = {"type": "json_schema", "name": "answer", "strict": True, "schema": inside({"const": 7})}
    body = {"input": "hi", "max_output_tokens": 60, "temperature": 0, "text": {"format": form}}
    (message,) = server.http.post("/v1/responses", json=body).json()["output"]
    assert json.loads(message["content"][0]["text"]) == {"v": 7}


def test_a_tool_nobody_called_strict_is_best_effort_in_the_responses_dialect_too(server):
    tool = {"type": "function", "name": "f", "parameters": inside(TEXT | {"pattern": "[0-9]+"})}
    for strict, status in ({}, 200), ({"strict": True}, 400):
        body = {"input": "hi", "max_output_tokens": 1, "tools": [tool | strict]}
        assert server.http.post("/v1/responses", json=body).status_code == status


def test_a_client_that_says_it_is_not_strict_gets_the_best_effort(server):
    rule = inside({"type": "array", "items": TEXT, "uniqueItems": True, "minItems": 1, "maxItems": 1})
    assert ask(server, rule, strict=False).status_code == 200
    assert ask(server, rule, strict=None).status_code == 400
    assert ask(server, False, strict=False).status_code == 400


@pytest.mark.parametrize(
    "form", [{"type": "json_object", "schema": None}, {"type": "text", "json_schema": None}, {"type": None}, None]
)
def test_a_null_inside_a_response_format_is_absent(server, form):
    body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1, "response_format": form}
    answer = server.http.post(CHAT, json=body)
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize(
    "form", ["json", {"type": "yaml"}, {"type": "json_schema"}, {"type": "json_schema", "json_schema": {}}]
)
def test_a_response_format_nobody_knows_is_refused(server, form):
    body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1, "response_format": form}
    answer = server.http.post(CHAT, json=body)
    assert answer.status_code == 400
    assert "response_format" in answer.json()["error"]["message"]


def test_a_format_the_grammar_does_not_know_is_only_an_annotation_unless_strict(server):
    rule = inside(TEXT | {"format": "email"})
    assert ask(server, rule, strict=False).status_code == 200


@pytest.mark.parametrize("stream", [False, True])
def test_a_grammar_that_does_not_parse_is_refused(server, stream):
    answer = server.http.post("/completion", json={"prompt": "x", "grammar": "root ::= (", "stream": stream})
    assert answer.status_code == 400


def answer_to(response):
    choice = response.json()["choices"][0]
    assert response.status_code == 200, response.text
    return json.loads(choice["message"]["content"])
