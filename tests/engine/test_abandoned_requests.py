"""A client that leaves frees its slot within three seconds, whatever else the server is asked meanwhile."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from patience import eventually, promptly

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
        if time.monotonic() - began > 100:
            pytest.fail("the slot was still busy 100 s after the client had left")
        server.metrics()
        time.sleep(poll_s)
    return time.monotonic() - began


def is_answering(server) -> bool:
    return any(slot["phase"] == "decode" and slot["decoded"] > 4 for slot in server.live()["slots"])


def hang_up_in_mid_answer(server, body: dict) -> None:
    server.hang_up_after(lambda: eventually(lambda: is_answering(server)), body)


@pytest.mark.parametrize("poll_s", [0.05, 0.2, 1.5])
def test_a_whole_answer_stops_soon_after_the_hang_up(server, poll_s):
    def freed_s() -> float:
        hang_up_in_mid_answer(server, LONG_ANSWER)
        return seconds_until_idle(server, poll_s)

    promptly(freed_s, FREE_S)


def test_a_streamed_answer_stops_soon_after_the_hang_up(server):
    def freed_s() -> float:
        hang_up_in_mid_answer(server, LONG_ANSWER | {"stream": True})
        return seconds_until_idle(server, 0.2)

    promptly(freed_s, FREE_S)


def answering(server) -> list[int]:
    """The tasks that are being answered."""
    return [slot["task"] for slot in server.live()["slots"] if slot["phase"] == "decode"]


def test_another_stream_does_not_keep_an_abandoned_request_alive(server):
    stop = threading.Event()

    def other_client() -> None:
        body = LONG_ANSWER | {"stream": True, "n_predict": 4000}
        with httpx.stream("POST", f"{server.url}/completion", json=body, timeout=60, trust_env=False) as answer:
            for _ in answer.iter_lines():
                if stop.is_set():
                    return

    def freed_s() -> float:
        server.hang_up_after(lambda: eventually(lambda: len(answering(server)) == 2), LONG_ANSWER)
        left = time.monotonic()
        eventually(lambda: server.live()["requests"]["processing"] == 1)
        took_s = time.monotonic() - left
        assert answering(server) == [others_task]
        return took_s

    other = threading.Thread(target=other_client)
    other.start()
    try:
        eventually(lambda: len(answering(server)) == 1)
        (others_task,) = answering(server)
        promptly(freed_s, FREE_S)
    finally:
        stop.set()
        other.join()
    seconds_until_idle(server, 0.1)


def is_reading(server) -> bool:
    return server.live()["slots"][0]["prompt"]["processed"] > 8


def test_a_prompt_is_given_up_in_mid_batch_and_what_was_computed_is_kept(start_server):
    # One batch for the whole prompt, one token a ubatch: slow on every machine, and without the abort run to its end.
    prompt = [1000 + n for n in range(600)]
    with start_server("-c", "1024", "-np", "1", "-b", "1024", "-ub", "1") as server:
        body = {"prompt": prompt, "n_predict": 4, "cache_prompt": True}
        server.hang_up_after(lambda: eventually(lambda: is_reading(server)), body)
        seconds_until_idle(server, 0.1)
        (left,) = server.http.get("/kvarn/requests").json()["requests"]
        again = server.complete(prompt, n_predict=4, cache_prompt=True)
        fresh = server.complete(prompt, n_predict=4, cache_prompt=False)
    assert left["finish"] == "cancelled"
    # Given up in mid batch: of a prompt that was read to its end, all but the last token would be kept.
    assert 0 < again["timings"]["cache_n"] < len(prompt) - 1
    assert again["content"] == fresh["content"]


def test_a_prompt_that_is_given_up_stays_counted(start_server):
    prompt = [1000 + n for n in range(600)]
    seen = []
    with start_server("-c", "1024", "-np", "1", "-b", "1024", "-ub", "1") as server, ThreadPoolExecutor() as pool:
        seen_at_work = (lambda: eventually(lambda: is_reading(server)), {"prompt": prompt, "n_predict": 4})
        client = pool.submit(server.hang_up_after, *seen_at_work)
        while not client.done() or server.live()["requests"]["processing"] > 0:
            seen.append(server.live()["tokens"])
            time.sleep(0.01)
        client.result()
        seconds_until_idle(server, 0.1)
        seen.append(server.live()["tokens"])
        metrics = server.metrics()
    for name in ("prompt_total", "prompt_ms_total"):
        assert [tokens[name] for tokens in seen] == sorted(tokens[name] for tokens in seen)
    assert 0 < seen[-1]["prompt_total"] < len(prompt)
    assert metrics["kvarn:prompt_tokens_total"] == seen[-1]["prompt_total"]
