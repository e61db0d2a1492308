"""The figures of the link beside the engine's own, on the starter model."""

from __future__ import annotations

import math
import threading
import time

import httpx
import numpy as np
import pytest

from kvarn.domain.live import quantities as q
from kvarn.services.clock import SystemClock
from kvarn.services.live.request_log import RequestLog
from kvarn.services.live.telemetry_link import TelemetryLink
from kvarn.services.live.telemetry_store import TelemetryStore

pytestmark = pytest.mark.engine
PROMPT = "Once upon a time there was a miller who ground barley, rye and wheat. " * 5


@pytest.fixture(scope="session")
def answer_tokens(starter_engine) -> int:
    """Enough for about six seconds of answering on this machine as busy as it is."""
    speed = complete(starter_engine, 6)["predicted_per_second"]
    return max(12, min(600, round(6 * speed)))


@pytest.fixture
def watched(starter_engine):
    """(engine, store, requests) with the link attached and past its first look."""
    store, requests = TelemetryStore(), RequestLog()
    link = TelemetryLink(store, requests, clock=SystemClock())
    link.attach(starter_engine.url, starter_engine.pid)
    _wait(lambda: link.state.frames > 0)
    yield starter_engine, store, requests
    link.close()


def _wait(condition, seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    assert condition()


def _finite(store, name):
    t, v = store.window(name, -math.inf, math.inf)
    return t[v == v], v[v == v]


def complete(engine, tokens: int, prompt: str = PROMPT, **more) -> dict:
    body = {"prompt": prompt, "n_predict": tokens, "ignore_eos": True, "cache_prompt": False} | more
    return engine.answer("/completion", **body)["timings"]


def test_live_decode_speed_is_the_engines_own_within_a_tenth_and_prefill_is_not_in_it(watched, answer_tokens):
    engine, store, _ = watched
    timings = complete(engine, answer_tokens)
    _wait(lambda: store.latest(q.DECODE_RAW_TOK_PER_S) is None)
    t, raw = _finite(store, q.DECODE_RAW_TOK_PER_S)
    # Each raw value holds from the sample before it: weighted by time they are the whole answer's speed.
    live = float((raw[1:] * np.diff(t)).sum() / (t[-1] - t[0]))
    assert live == pytest.approx(timings["predicted_per_second"], rel=0.10), (raw, timings)
    assert len(_finite(store, q.DECODE_TOK_PER_S)[0]) > 3
    _, prefill = _finite(store, q.PREFILL_TOK_PER_S)
    assert float(prefill[-1]) == pytest.approx(timings["prompt_per_second"], rel=0.05), (prefill, timings)


def test_a_finished_request_has_the_engines_counts_and_its_speeds_within_two_percent(watched):
    engine, _, requests = watched
    timings = complete(engine, 12)
    _wait(lambda: requests.revision == 1)
    (request,) = requests.latest(1)
    assert request.generated_tokens == timings["predicted_n"] == 12
    assert request.prompt_tokens == timings["prompt_n"] + timings["cache_n"]
    assert request.decode_tok_per_s == pytest.approx(timings["predicted_per_second"], rel=0.02)
    assert request.prefill_tok_per_s == pytest.approx(timings["prompt_per_second"], rel=0.02)


def test_cached_prompt_tokens_are_counted_apart_and_not_as_computed(watched):
    engine, _, requests = watched
    first = complete(engine, 3, cache_prompt=True, id_slot=0)
    _wait(lambda: requests.revision == 1)
    second = complete(engine, 3, cache_prompt=True, id_slot=0)
    _wait(lambda: requests.revision == 2)
    assert first["cache_n"] < second["cache_n"]
    request = requests.latest(1)[0]
    assert request.cached_tokens == second["cache_n"]
    assert request.prompt_tokens == second["prompt_n"] + second["cache_n"]


def test_an_answer_of_one_token_shows_no_decode_speed(watched):
    engine, store, requests = watched
    before = len(_finite(store, q.DECODE_TOK_PER_S)[0])
    complete(engine, 1)
    _wait(lambda: requests.revision == 1)
    assert requests.latest(1)[0].decode_tok_per_s is None
    assert len(_finite(store, q.DECODE_TOK_PER_S)[0]) == before


def test_a_queue_of_four_on_two_slots_keeps_waiting_out_of_the_speed(watched):
    engine, store, requests = watched
    timings: list[dict] = []
    threads = [threading.Thread(target=lambda: timings.append(complete(engine, 10))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    _wait(lambda: store.latest(q.REQUESTS_PROCESSING) == 0)
    _, deferred = _finite(store, q.REQUESTS_DEFERRED)
    assert deferred.max() >= 1
    _, speeds = _finite(store, q.DECODE_TOK_PER_S)
    fastest = max(t["predicted_per_second"] for t in timings)
    assert speeds.max() < 2 * fastest * 1.3
    for request in requests.latest(4):
        assert request.decode_tok_per_s is None or request.decode_tok_per_s <= fastest * 1.02


def test_somebody_elses_scrapes_do_not_change_our_figures(watched):
    """Every scrape resets the engine's own speed gauges: ours come from differences of totals."""
    engine, _, requests = watched
    stop = threading.Event()

    def scrape() -> None:
        while not stop.wait(0.05):
            httpx.get(f"{engine.url}/metrics", trust_env=False)

    other = threading.Thread(target=scrape)
    other.start()
    try:
        timings = complete(engine, 12)
        _wait(lambda: requests.revision == 1)
    finally:
        stop.set()
        other.join()
    assert requests.latest(1)[0].decode_tok_per_s == pytest.approx(timings["predicted_per_second"], rel=0.02)


def test_the_mapped_model_file_and_the_private_memory_of_the_engine_are_told_apart(watched, starter_model):
    _, store, _ = watched
    _wait(lambda: store.latest(q.ENGINE_MAPPED_BYTES) is not None)
    mapped, private = store.latest(q.ENGINE_MAPPED_BYTES), store.latest(q.ENGINE_PRIVATE_BYTES)
    assert mapped + private == store.latest(q.ENGINE_RSS_BYTES)
    assert mapped > 0.5 * starter_model.stat().st_size
    assert private > 1 << 20
