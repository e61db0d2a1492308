"""What the events of an answer say, whatever they leave out."""

from __future__ import annotations

import json
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvarn.domain.live.chat_problem import ChatTrouble, problem_of_reply
from kvarn.domain.live.chat_request import ChatRequest, ChatTurn, curl_text
from kvarn.domain.live.chat_stream import ChatStream, whole

GRAIN = "🌾"


def content(text: str) -> str:
    return json.dumps({"choices": [{"delta": {"content": text}, "finish_reason": None}]})


@given(st.text(), st.data())
def test_text_cut_anywhere_even_inside_a_character_comes_out_whole(text: str, data: st.DataObject) -> None:
    units = [u.decode("utf-16-le", "surrogatepass") for u in _units(text.encode("utf-16-le", "surrogatepass"))]
    stream, at = ChatStream(), 0
    while at < len(units):
        size = data.draw(st.integers(1, 3))
        stream.read(content("".join(units[at : at + size])))
        stream.text.encode()
        at += size
    assert stream.text == text


def _units(utf16: bytes) -> list[bytes]:
    return [utf16[n : n + 2] for n in range(0, len(utf16), 2)]


def test_an_answer_that_ends_inside_a_character_shows_no_half_of_it() -> None:
    stream = ChatStream()
    stream.read(content("grain \ud83c"))
    assert stream.text == "grain "
    stream.read(content("!"))
    assert stream.text == "grain �!"


@pytest.mark.parametrize(
    "data", ["", " ", "{}", "[DONE]", '{"choices":[{}]}', '{"choices":[{"delta":null}]}', '{"choices":null}']
)
def test_events_that_say_nothing_add_nothing(data: str) -> None:
    stream = ChatStream()
    stream.read(data)
    assert (stream.text, stream.reasoning, stream.problem) == ("", "", None)


@pytest.mark.parametrize("data", ["{", "7", '"text"', '{"choices":{}}', '{"choices":[{"delta":3}]}', "[" * 100_000])
def test_events_of_another_protocol_are_a_problem_and_keep_the_text(data: str) -> None:
    stream = ChatStream()
    stream.read(content("so far"))
    stream.read(data)
    assert stream.text == "so far"
    assert stream.problem is not None
    assert stream.problem.kind is ChatTrouble.UNREADABLE


@pytest.mark.parametrize(
    ("timings", "prefill", "decode"),
    [
        ({"prompt_n": 30, "prompt_ms": 60.0, "predicted_n": 51, "predicted_ms": 1000.0}, 500.0, 50.0),
        ({"prompt_n": 1, "prompt_ms": 5.0, "predicted_n": 1, "predicted_ms": 0.001}, 200.0, None),
        ({"prompt_n": 0, "prompt_ms": 0.0, "predicted_n": 0, "predicted_ms": 0.0}, None, None),
        ({}, None, None),
    ],
)
def test_speeds_are_the_engines_own_and_absent_where_there_is_no_step(timings, prefill, decode) -> None:
    stream = ChatStream()
    stream.read(json.dumps({"choices": [], "timings": timings}))
    figures = stream.figures
    assert (figures.prefill_tok_per_s, figures.decode_tok_per_s) == (prefill, decode)


def test_cached_prompt_tokens_count_as_prompt_but_not_as_computed() -> None:
    stream = ChatStream()
    stream.read(json.dumps({"timings": {"cache_n": 600, "prompt_n": 100, "prompt_ms": 500.0, "predicted_n": 3}}))
    figures = stream.figures
    assert (figures.prompt_tokens, figures.cached_tokens, figures.generated_tokens) == (700, 600, 3)
    assert figures.prefill_tok_per_s == 200.0


@pytest.mark.parametrize(
    ("status", "body", "kind", "words"),
    [
        (401, '{"error":{"message":"Invalid API Key"}}', ChatTrouble.WRONG_KEY, "wrong key"),
        (503, '{"error":{"message":"Loading model","type":"unavailable_error"}}', ChatTrouble.LOADING, "loading"),
        (500, '{"error":"<b>odd</b>"}', ChatTrouble.REFUSED, "<b>odd</b>"),
        (502, "<html>" + "x" * 10_000, ChatTrouble.REFUSED, "<html>xxx"),
        (500, "", ChatTrouble.REFUSED, "500"),
        (400, '{"error":{"message":7}}', ChatTrouble.REFUSED, "400"),
        (400, '{"error":{"type":"exceed_context_size_error"}}', ChatTrouble.TOO_LONG, "Longer than the context."),
    ],
)
def test_every_refusal_is_a_sentence(status: int, body: str, kind: ChatTrouble, words: str) -> None:
    problem = problem_of_reply(status, body)
    assert problem.kind is kind
    assert words in problem.message
    assert len(problem.message) < 600


def test_the_curl_command_is_the_same_request_and_never_holds_the_key() -> None:
    traps = 'it\'s "quoted" $HOME `id` \\ & <b>\nnext ' + GRAIN
    request = ChatRequest("http://127.0.0.1:5827", (ChatTurn("user", traps),))
    words = shlex.split(curl_text(request, with_key=True).replace("\\\n", " "))
    assert words[2] == "http://127.0.0.1:5827/v1/chat/completions"
    assert words[-1] == request.body
    assert json.loads(words[-1])["messages"] == [{"role": "user", "content": traps}]
    assert "Authorization: Bearer $KVARN_API_KEY" in words
    assert "KVARN_API_KEY" not in curl_text(request, with_key=False)


def test_a_lone_half_of_a_character_in_a_prompt_can_still_be_sent() -> None:
    assert whole("a\ud83cb").encode() == "a�b".encode()
