"""A request that cannot be served is 400 with one readable sentence, and costs the engine nothing."""

from __future__ import annotations

import json
import time

import pytest

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def server(start_server):
    with start_server(
        "-c", "2048", "-np", "2", "-t", "1", "--cors-origins", "localhost", "--alias", "starter"
    ) as running:
        yield running


CHAT = "/v1/chat/completions"
PNG = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ"
CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 2}'}}


def user(content) -> list[dict]:
    return [{"role": "user", "content": content}]


def answered(call: dict, result: dict) -> list[dict]:
    asked = [*user("2+2?"), {"role": "assistant", "content": None, "tool_calls": [call]}]
    return [*asked, {"role": "tool", "tool_call_id": "c1", "content": "4"} | result]


REFUSED_MESSAGES = {
    "absent": (None, "'messages' is required"),
    "text": ("hi", "'messages' is required"),
    "empty": ([], "'messages' is empty"),
    "a null turn": ([None], "messages[0] must be an object"),
    "a role missing": ([{"content": "hi"}], "messages[0] has no 'role'"),
    "a role null": ([{"role": None, "content": "hi"}], "messages[0] has no 'role'"),
    "a role nobody knows": ([{"role": "narrator", "content": "hi"}], "the role 'narrator'"),
    "a user turn without content": ([{"role": "user"}], "messages[0] has no 'content'"),
    "an assistant turn with nothing": ([*user("hi"), {"role": "assistant"}, *user("?")], "messages[1] has neither"),
    "content a number": (user(7), "messages[0].content must be"),
    "content an object": (user({"text": "hi"}), "messages[0].content must be"),
    "a part that is no object": (user(["hi"]), "messages[0].content[0] has no 'type'"),
    "a part without type": (user([{"text": "hi"}]), "messages[0].content[0] has no 'type'"),
    "a part of unknown type": (user([{"type": "smell"}]), "unsupported type 'smell'"),
    "a text part with null": (user([{"type": "text", "text": None}]), "'text' is not a string"),
    "a tool call with null id": (answered(CALL | {"id": None}, {}), "tool_calls[0].id must be a string"),
    "a tool result with null id": (answered(CALL, {"tool_call_id": None}), "tool_call_id must be a string"),
    "a tool call without function": (answered({"id": "c1", "type": "function"}, {}), "has no 'function'"),
    "a name null": ([{"role": "user", "name": None, "content": "hi"}], "messages[0].name must be a string"),
}


@pytest.mark.parametrize("case", REFUSED_MESSAGES)
def test_messages_nobody_can_read_are_refused_with_the_place_and_the_reason(server, case):
    messages, words = REFUSED_MESSAGES[case]
    body = {"max_tokens": 1} if messages is None else {"max_tokens": 1, "messages": messages}
    assert_refused(server.http.post(CHAT, json=body), words)
    while words not in log(server):  # the log says why, too; its writer runs behind. The test's timeout is the limit.
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ('{"model":', "not valid JSON"),
        ("", "is empty"),
        ("[]", "must be a JSON object"),
        ("null", "must be a JSON object"),
        ('{"messages":[{"role":"user","content":"x\\ud83d y"}]}', "surrogate"),
        ('{"temperature":NaN,"messages":[]}', "not valid JSON"),
        ('{"temperature":1e400,"messages":[]}', "number overflow"),
        ('{"messages":"' + "\xff" * 9 + '"', "not valid JSON"),
    ],
)
def test_a_body_that_is_not_a_json_object_is_refused(server, raw, words):
    assert_refused(server.http.post(CHAT, content=raw.encode("latin-1")), words)


@pytest.mark.parametrize(
    "path",
    [
        "/completion",
        "/v1/completions",
        "/infill",
        "/v1/embeddings",
        "/tokenize",
        "/detokenize",
        "/apply-template",
        "/v1/responses",
        "/v1/messages",
        "/v1/chat/completions/input_tokens",
    ],
)
@pytest.mark.parametrize("raw", ['{"a":', "[1]", '{"prompt": {}, "tokens": ["x"], "messages": 5, "input": {}}'])
def test_no_endpoint_answers_a_broken_body_with_a_server_error(server, path, raw):
    answer = server.http.post(path, content=raw)
    assert answer.status_code in (200, 400, 501), answer.text
    assert "json.exception" not in answer.text


@pytest.mark.parametrize("prompt", [[], None, [-1], [1, 2, 99_999_999], {"x": 1}])
def test_a_prompt_that_is_no_text_and_no_tokens_is_refused(server, prompt):
    assert_refused(server.http.post("/v1/completions", json={"max_tokens": 1, "prompt": prompt}), "rompt")


@pytest.mark.parametrize("url", [PNG, "http://127.0.0.1:9/x.png", "file:///etc/hostname"])
def test_an_image_for_a_text_model_is_refused_by_name_and_neither_fetched_nor_logged(server, url):
    parts = [{"type": "text", "text": "what is this"}, {"type": "image_url", "image_url": {"url": url}}]
    assert_refused(server.http.post(CHAT, json={"messages": user(parts)}), "the model 'starter'")
    assert url not in log(server)


def test_a_long_unreadable_request_is_not_copied_into_answer_or_log(server):
    secret = "s3cret " * 2_000
    answer = server.http.post(CHAT, content='{"messages":[{"role":"user","content":"' + secret + '\\ud83d"}]}')
    assert_refused(answer, "surrogate")
    assert "s3cret" not in answer.text
    assert "s3cret" not in log(server)


@pytest.mark.parametrize("path", [CHAT, "/completion", "/tokenize"])
def test_a_body_nested_without_end_is_refused_and_the_engine_lives(server, path):
    for head in ('{"tools":', '{"messages":[{"role":"user","content":"x"}],"json_schema":', '{"prompt":', ""):
        assert_refused(server.http.post(path, content=head + '{"items":[' * 100_000), "levels deep")
    assert server.http.get("/health").status_code == 200


LEGAL_MESSAGES = {
    "a tool call with null content": answered(CALL, {}),
    "a tool call without content": [*user("hi"), {"role": "assistant", "tool_calls": [CALL]}, *answered(CALL, {})[2:]],
    "empty content": user(""),
    "an empty part list": user([]),
    "a system turn at the end": [*user("hi"), {"role": "system", "content": "be brief"}],
    "a null reasoning, as another server answered it": [
        *user("hi"),
        {"role": "assistant", "content": "hello", "reasoning_content": None},
        *user("?"),
    ],
    "a developer turn": [{"role": "developer", "content": "be brief"}, *user("hi")],
    "a NUL inside": user("a\0b"),
    "brackets in text": user('"\\"' + "[" * 300),
    "parts": user([{"type": "text", "text": "say"}, {"type": "text", "text": " hello"}]),
}


@pytest.mark.parametrize("case", LEGAL_MESSAGES)
def test_legal_messages_are_answered(server, case):
    answer = server.http.post(CHAT, json={"max_tokens": 1, "messages": LEGAL_MESSAGES[case]})
    assert answer.status_code == 200, answer.text


NO_ARGUMENTS = {"type": "object", "properties": {}}
TOOLS = [
    {"type": "function", "function": {"name": name, "description": None, "parameters": NO_ARGUMENTS}}
    for name in ("first", "second")
]


def test_a_named_tool_choice_forces_that_tool(server):
    tools = TOOLS
    body = {"max_tokens": 64, "temperature": 0, "messages": user("hi"), "tools": tools}
    chosen = {"type": "function", "function": {"name": "second"}}
    choice = server.http.post(CHAT, json=body | {"tool_choice": chosen}).json()["choices"][0]
    assert {call["function"]["name"] for call in choice["message"]["tool_calls"]} == {"second"}
    chosen["function"]["name"] = "third"
    assert_refused(server.http.post(CHAT, json=body | {"tool_choice": chosen}), "'tool_choice'")


def test_a_tool_named_in_the_other_two_dialects_is_forced_too(server):
    flat = [{"type": "function", "name": tool["function"]["name"], "parameters": NO_ARGUMENTS} for tool in TOOLS]
    body = {"input": "hi", "max_output_tokens": 64, "temperature": 0, "tools": flat}
    chosen = {"type": "function", "name": "second"}
    output = server.http.post("/v1/responses", json=body | {"tool_choice": chosen}).json()["output"]
    assert {item["name"] for item in output if item["type"] == "function_call"} == {"second"}

    claude = [{"name": tool["name"], "input_schema": NO_ARGUMENTS} for tool in flat]
    body = {"messages": user("hi"), "max_tokens": 64, "temperature": 0, "tools": claude}
    chosen = {"type": "tool", "name": "second"}
    content = server.http.post("/v1/messages", json=body | {"tool_choice": chosen}).json()["content"]
    assert {part["name"] for part in content if part["type"] == "tool_use"} == {"second"}


@pytest.mark.parametrize("choice", ["auto", "none", {"type": "auto"}, {"type": "none"}, None])
def test_a_tool_choice_that_names_no_tool_is_a_word_with_or_without_its_coat(server, choice):
    body = {"max_tokens": 1, "messages": user("hi"), "tools": TOOLS, "tool_choice": choice}
    answer = server.http.post(CHAT, json=body)
    assert answer.status_code == 200, answer.text


def assert_refused(answer, words: str) -> None:
    assert answer.status_code == 400, answer.text
    error = json.loads(answer.text)["error"]
    assert words in error["message"]
    assert error["type"] == "invalid_request_error"
    assert "json.exception" not in error["message"]
    assert len(error["message"]) < 400


def log(server) -> str:
    return server.log.read_text(errors="replace")
