"""A streamed answer, joined, is the whole answer byte for byte, wherever the limit falls."""

from __future__ import annotations

import json
import socket

import httpx
import pytest

pytestmark = pytest.mark.engine

COUNTING = "1 2 3 4 5 6 7 8"
NEVER = " 9 10 11 12 13 14 15 16 17 NEVER"
EMOJI = 'root ::= "\\U0001F999" "\\U0001F30D" "é" "\\U0001F468\\u200D\\U0001F469"'


@pytest.fixture(scope="module")
def server(start_server):
    with start_server("-c", "2048", "-np", "2", "-t", "1", "--alias", "starter") as running:
        yield running


def text_of(event: dict) -> str:
    """The text of one whole answer or of one streamed piece, whichever endpoint made it."""
    if "content" in event and isinstance(event["content"], str):  # /completion
        return event["content"]
    if event.get("type") == "content_block_delta":  # /v1/messages
        return event["delta"].get("text", "")
    if event.get("type") == "response.output_text.delta":  # /v1/responses
        return event["delta"]
    if "output" in event:
        return "".join(part["text"] for item in event["output"] for part in item["content"])
    if isinstance(event.get("content"), list):
        return "".join(part["text"] for part in event["content"])
    choice = (event.get("choices") or [{}])[0]
    return choice.get("text") or choice.get("message", choice.get("delta", {})).get("content") or ""


def events(server, path: str, body: dict) -> list[dict]:
    answer = server.http.post(path, json=body | {"stream": True})
    assert answer.status_code == 200, answer.text
    lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def pieces(server, path: str, body: dict) -> list[str]:
    return [text_of(event) for event in events(server, path, body)]


def whole(server, path: str, body: dict) -> str:
    return text_of(server.http.post(path, json=body).json())


@pytest.mark.parametrize("limit", [1, 2, 6])
@pytest.mark.parametrize("path", ["/completion", "/v1/completions", "/v1/chat/completions", "/v1/messages"])
def test_text_held_back_as_a_possible_stop_is_released_at_the_limit(server, path, limit):
    body = {"max_tokens": limit, "temperature": 0, "cache_prompt": False, "prompt": COUNTING}
    free = whole(server, path, body | chat("Count."))
    stops = [free + " NEVER"]  # every answer is the beginning of this one
    body |= chat("Count.") | {"stop": stops, "stop_sequences": stops}
    held = pieces(server, path, body)
    assert "".join(held) == whole(server, path, body) == free != ""
    assert len([piece for piece in held if piece]) == 1  # it was held back until the end


def test_held_text_reaches_a_responses_stream(server):
    body = {"max_output_tokens": 4, "temperature": 0, "input": "Count.", "cache_prompt": False}
    free = whole(server, "/v1/responses", body)
    assert "".join(pieces(server, "/v1/responses", body | {"stop": [free + " NEVER"]})) == free != ""


def test_the_pieces_of_a_held_answer_state_each_token_once(server):
    body = {"prompt": COUNTING, "n_predict": 6, "temperature": 0, "stop": [NEVER], "n_probs": 1}
    streamed = events(server, "/completion", body)
    tokens = [token for event in streamed for token in event["tokens"]]
    assert tokens == server.http.post("/completion", json=body | {"return_tokens": True}).json()["tokens"]
    assert sum(len(event.get("completion_probabilities", [])) for event in streamed) == 6


@pytest.mark.parametrize("path", ["/completion", "/v1/completions"])
def test_a_stop_that_is_reached_never_shows(server, path):
    body = {"prompt": COUNTING, "max_tokens": 12, "temperature": 0, "stop": [" 10", " 1"]}
    assert "".join(pieces(server, path, body)) == whole(server, path, body) == " 9"


@pytest.mark.parametrize("limit", range(1, 18, 3))
def test_every_piece_is_whole_characters_and_a_cut_one_is_marked_once(server, limit):
    body = {"prompt": "x", "max_tokens": limit, "temperature": 0, "grammar": EMOJI}
    for path in ("/completion", "/v1/completions"):
        got = pieces(server, path, body)
        assert "".join(got) == whole(server, path, body)
        assert "".join(got).count("\ufffd") <= 1
        assert "\ufffd" not in "".join(got)[:-1]


@pytest.mark.parametrize(
    ("path", "is_opening"),
    [
        ("/v1/chat/completions", lambda event: event["choices"][0]["delta"].get("role") == "assistant"),
        ("/v1/responses", lambda event: event["type"] == "response.created"),
    ],
)
@pytest.mark.parametrize("limit", [1, 2, 20])
def test_a_stream_opens_once_and_first_when_it_begins_with_half_a_character(server, path, is_opening, limit):
    # /v1/messages opens by the same rule, but takes no grammar that could make an answer begin so.
    words = {"input": "x", "max_output_tokens": limit} if path == "/v1/responses" else chat("x")
    got = events(server, path, words | {"max_tokens": limit, "temperature": 0, "grammar": EMOJI})
    assert [is_opening(event) for event in got].index(True) == 0
    assert sum(map(is_opening, got)) == 1
    assert limit < 20 or "\U0001f999" in "".join(map(text_of, got))


def test_a_connection_outlives_a_finished_stream(server):
    body = {"prompt": COUNTING, "n_predict": 1, "stream": True}
    raw = json.dumps(body).encode()
    url = httpx.URL(server.url)
    head = f"POST /completion HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(raw)}\r\n\r\n".encode()
    with socket.create_connection((url.host, url.port), timeout=30) as connection:
        for _ in range(2):  # the second request on the same connection is answered, too
            connection.sendall(head + raw)
            answer = b""
            while not answer.endswith(b"\r\n0\r\n\r\n"):
                piece = connection.recv(65536)
                assert piece, answer
                answer += piece
            assert answer.startswith(b"HTTP/1.1 200")


def chat(content: str) -> dict:
    return {"messages": [{"role": "user", "content": content}]}
