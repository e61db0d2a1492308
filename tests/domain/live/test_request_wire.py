from __future__ import annotations

import json

import pytest

from kvarn.domain.live.rebuild_reasons import rebuild_phrase
from kvarn.domain.live.request_wire import parse_requests

ONE = {
    "seq": 7,
    "id_task": 12,
    "id_slot": 0,
    "finished_unix_ms": 1_796_000_000_000,
    "finish": "limit",
    "n_prompt_tokens": 700,
    "prompt_n": 100,
    "cache_n": 600,
    "predicted_n": 51,
    "queue_ms": 40.0,
    "prompt_ms": 500.0,
    "predicted_ms": 1000.0,
    "ttft_ms": 540.0,
    "draft_n": 0,
    "draft_n_accepted": 0,
}


def page(**changes) -> bytes:
    return json.dumps({"last_seq": 7, "kept": 256, "requests": [ONE | changes]}).encode()


def test_cached_tokens_count_as_prompt_but_not_as_speed_and_waiting_is_apart():
    batch = parse_requests(page(), 99.5)
    (request,) = batch.requests
    assert batch.last_seq == 7
    assert request.ended_s == 99.5
    assert (request.prompt_tokens, request.cached_tokens, request.generated_tokens) == (700, 600, 51)
    assert request.prefill_tok_per_s == pytest.approx(200)
    assert request.decode_tok_per_s == pytest.approx(50)
    assert (request.queue_ms, request.ttft_ms) == (40, 540)
    assert request.acceptance is None
    assert request.error == ""


def test_an_answer_of_one_token_has_no_decode_speed():
    (request,) = parse_requests(page(predicted_n=1, predicted_ms=0.001), 0).requests
    assert request.decode_tok_per_s is None


def test_a_request_its_client_left_has_no_first_token_and_says_what_happened():
    (request,) = parse_requests(page(predicted_n=0, ttft_ms=None, finish="cancelled"), 0).requests
    assert request.ttft_ms is None
    assert request.decode_tok_per_s is None
    assert request.error == "the client left before the end"


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"last_seq": "x", "requests": []}', b"\xff"])
def test_an_unreadable_page_is_none(body):
    assert parse_requests(body, 0) is None


def test_a_reason_we_have_no_phrase_for_is_shown_in_the_engines_words():
    assert rebuild_phrase("kv_grew") == "attention spans more cache cells"
    assert rebuild_phrase("some_new_thing") == "some new thing"
