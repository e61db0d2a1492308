"""A client that leaves frees its slot within three seconds, whatever else the server is asked meanwhile."""

from __future__ import annotations

import threading
import time

import httpx
import pytest

pytestmark = pytest.mark.engine

FREE_S = 3.0
LONG_ANSWER = {"prompt": "Once", "n_predict": 1500, "ignore_eos": True, "cache_prompt": False}


@pytest.fixture(scope="module")
def server(start_server):
    with start_server("-c", "8192", "-np", "2", "-b", "2048", "-ub", "512") as running:
        yield running


def seconds_until_idle(server, poll_s: float) -> float:
    """Polls /slots and /metrics at the given pace, as live charts do."""
    began = time.monotonic()
    while server.is_busy():
        if time.monotonic() - began > 30:
            pytest.fail("the slot was still busy 30 s after the client had left")
        server.metrics()
        time.sleep(poll_s)
    return time.monotonic() - began


@pytest.mark.parametrize("poll_s", [0.05, 0.2, 1.5])
def test_a_whole_answer_stops_soon_after_the_hang_up(server, poll_s):
    server.hang_up_after(0.5, LONG_ANSWER)
    assert seconds_until_idle(server, poll_s) < FREE_S


def test_a_streamed_answer_stops_soon_after_the_hang_up(server):
    server.hang_up_after(0.5, LONG_ANSWER | {"stream": True})
    assert seconds_until_idle(server, 0.2) < FREE_S


def test_another_stream_does_not_keep_an_abandoned_request_alive(server):
    stop = threading.Event()

    def other_client() -> None:
        body = LONG_ANSWER | {"stream": True}
        with httpx.stream("POST", f"{server.url}/completion", json=body, timeout=60, trust_env=False) as answer:
            for _ in answer.iter_lines():
                if stop.is_set():
                    return

    other = threading.Thread(target=other_client)
    other.start()
    try:
        server.hang_up_after(0.5, LONG_ANSWER)
        left = time.monotonic()
        while sum(slot["is_processing"] for slot in server.http.get("/slots").json()) > 1:
            assert time.monotonic() - left < FREE_S
            time.sleep(0.1)
    finally:
        stop.set()
        other.join()
    seconds_until_idle(server, 0.1)


def test_a_prompt_is_given_up_in_mid_batch_and_what_was_computed_is_kept(start_server):
    # One batch for the whole prompt, one token a ubatch: slow on every machine, and without the abort run to its end.
    prompt = [1000 + n for n in range(400)]
    with start_server("-c", "512", "-np", "1", "-b", "512", "-ub", "1") as server:
        server.hang_up_after(0.2, {"prompt": prompt, "n_predict": 4, "cache_prompt": True})
        assert seconds_until_idle(server, 0.1) < FREE_S
        (left,) = server.http.get("/kvarn/requests").json()["requests"]
        again = server.complete(prompt, n_predict=4, cache_prompt=True)
        fresh = server.complete(prompt, n_predict=4, cache_prompt=False)
    assert left["finish"] == "cancelled"
    assert 0 < again["timings"]["cache_n"] < len(prompt)
    assert again["content"] == fresh["content"]


def test_a_prompt_that_is_given_up_stays_counted(start_server):
    prompt = [1000 + n for n in range(400)]
    seen = []
    with start_server("-c", "512", "-np", "1", "-b", "512", "-ub", "1") as server:
        client = threading.Thread(target=server.hang_up_after, args=(0.2, {"prompt": prompt, "n_predict": 4}))
        client.start()
        while client.is_alive() or server.live()["requests"]["processing"] > 0:
            seen.append(server.live()["tokens"])
            time.sleep(0.01)
        client.join()
        seconds_until_idle(server, 0.1)
        seen.append(server.live()["tokens"])
        metrics = server.metrics()
    for name in ("prompt_total", "prompt_ms_total"):
        assert [tokens[name] for tokens in seen] == sorted(tokens[name] for tokens in seen)
    assert 0 < seen[-1]["prompt_total"] < len(prompt)
    assert metrics["kvarn:prompt_tokens_total"] == seen[-1]["prompt_total"]
