"""The figures of the link beside the engine's own, on the starter model."""

from __future__ import annotations

import json
import math
import threading
import time

import httpx
import numpy as np
import pytest

from kvarn.domain.live import quantities as q
from kvarn.domain.live.chat_request import ChatRequest, ChatTurn
from kvarn.services.clock import SystemClock
from kvarn.services.live.request_log import RequestLog
from kvarn.services.live.telemetry_link import TelemetryLink
from kvarn.services.live.telemetry_store import TelemetryStore
from kvarn.services.live.trial_chat import TrialChat
from patience import HANG_S, noise_aside, promptly

pytestmark = pytest.mark.engine
PROMPT = "Once upon a time there was a miller who ground barley, rye and wheat. " * 5


@pytest.fixture(scope="module")
def is_kvarn(engine_dir) -> bool:
    return (engine_dir / "kvarn-build-info.json").exists()


@pytest.fixture(scope="module")
def answer_tokens(starter_engine) -> int:
    """Enough for about six seconds of answering on this machine as busy as it is."""
    speed = complete(starter_engine, 6)["predicted_per_second"]
    return max(12, min(600, round(6 * speed)))


@pytest.fixture
def watched(starter_engine):
    """(engine, store, requests, link), the link past its first look, which may list earlier requests."""
    store, requests = TelemetryStore(), RequestLog()
    link = TelemetryLink(store, requests, clock=SystemClock())
    link.attach(starter_engine.url, starter_engine.pid)
    _wait(lambda: link.state.frames > 0)
    _wait(lambda: store.latest(q.REQUESTS_PROCESSING) == 0)
    yield starter_engine, store, requests, link
    link.close()


def _wait(condition, seconds: float = HANG_S) -> None:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    assert condition()


def _finite(store, name):
    t, v = store.window(name, -math.inf, math.inf)
    return t[v == v], v[v == v]


def ended(requests, base: int, count: int = 1):
    """The requests that ended since the log stood at `base`."""
    _wait(lambda: requests.revision >= base + count)
    return requests.since(base)[0]


def complete(engine, tokens: int, prompt: str = PROMPT, **more) -> dict:
    body = {"prompt": prompt, "n_predict": tokens, "ignore_eos": True, "cache_prompt": False} | more
    return engine.answer("/completion", **body)["timings"]


def stream(engine, tokens: int) -> tuple[np.ndarray, np.ndarray, dict]:
    """An answer as its client sees it: arrival times, the engine's token count at each, and its final timings."""
    body = {"prompt": PROMPT, "n_predict": tokens, "ignore_eos": True, "cache_prompt": False}
    body |= {"stream": True, "timings_per_token": True}
    seen: list[tuple[float, dict]] = []
    with httpx.stream("POST", f"{engine.url}/completion", json=body, timeout=120, trust_env=False) as response:
        for line in response.iter_lines():
            if line.startswith("data: {") and (timings := json.loads(line[6:]).get("timings")):
                seen.append((time.monotonic(), timings))
    return np.array([t for t, _ in seen]), np.array([float(now["predicted_n"]) for _, now in seen]), seen[-1][1]


def test_live_decode_speed_is_what_the_client_sees_within_a_tenth_and_prefill_is_not_in_it(watched, answer_tokens):
    noise_aside(lambda: compare_speeds(watched, answer_tokens))


def compare_speeds(watched, answer_tokens) -> None:
    engine, store, requests, _ = watched
    store.clear()
    base = requests.revision
    arrived_s, count, timings = stream(engine, answer_tokens)
    ended(requests, base)
    t, raw = _finite(store, q.DECODE_RAW_TOK_PER_S)
    assert arrived_s[0] <= t[0]
    # Each raw value holds from the sample before it: weighted by time they are the speed of the whole span.
    live = float((raw[1:] * np.diff(t)).sum() / (t[-1] - t[0]))
    first, last = np.interp(t[[0, -1]], arrived_s, count)
    assert live == pytest.approx((last - first) / (t[-1] - t[0]), rel=0.10), (raw, timings)
    assert len(_finite(store, q.DECODE_TOK_PER_S)[0]) > 3
    _, prefill = _finite(store, q.PREFILL_TOK_PER_S)
    assert float(prefill[-1]) == pytest.approx(timings["prompt_per_second"], rel=0.05), (prefill, timings)


def test_a_finished_request_has_the_engines_counts_and_its_speeds_within_two_percent(watched):
    engine, _, requests, _ = watched
    base = requests.revision
    timings = complete(engine, 12)
    (request,) = ended(requests, base)
    assert request.generated_tokens == timings["predicted_n"] == 12
    assert request.prompt_tokens == timings["prompt_n"] + timings["cache_n"]
    assert request.decode_tok_per_s == pytest.approx(timings["predicted_per_second"], rel=0.02)
    assert request.prefill_tok_per_s == pytest.approx(timings["prompt_per_second"], rel=0.02)


def test_cached_prompt_tokens_are_counted_apart_and_not_as_computed(watched):
    engine, _, requests, _ = watched
    base = requests.revision
    first = complete(engine, 3, cache_prompt=True, id_slot=0)
    ended(requests, base)
    second = complete(engine, 3, cache_prompt=True, id_slot=0)
    assert first["cache_n"] < second["cache_n"]
    request = ended(requests, base, 2)[-1]
    assert request.cached_tokens == second["cache_n"]
    assert request.prompt_tokens == second["prompt_n"] + second["cache_n"]


def test_an_answer_of_one_token_shows_no_decode_speed(watched):
    engine, store, requests, _ = watched
    base = requests.revision
    complete(engine, 1)
    (request,) = ended(requests, base)
    assert request.decode_tok_per_s is None
    assert len(_finite(store, q.DECODE_TOK_PER_S)[0]) == 0


def test_a_queue_of_four_on_two_slots_keeps_waiting_out_of_the_speed(watched, answer_tokens):
    engine, store, requests, _ = watched
    base = requests.revision
    timings: list[dict] = []
    tokens = max(10, answer_tokens // 4)  # so long that a look falls into the waiting
    threads = [threading.Thread(target=lambda: timings.append(complete(engine, tokens))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ended(requests, base, 4)
    assert _finite(store, q.REQUESTS_DEFERRED)[1].max() >= 1
    true_speeds = [t["predicted_per_second"] for t in timings]
    for request in requests.since(base)[0]:
        speed = request.decode_tok_per_s
        assert any(speed == pytest.approx(true, rel=0.02) for true in true_speeds), (speed, true_speeds)


def test_somebody_elses_scrapes_do_not_change_our_figures(watched):
    """Every scrape resets the engine's own speed gauges: ours come from differences of totals."""
    engine, _, requests, _ = watched
    base = requests.revision
    stop = threading.Event()

    def scrape() -> None:
        while not stop.wait(0.05):
            httpx.get(f"{engine.url}/metrics", trust_env=False)

    other = threading.Thread(target=scrape)
    other.start()
    try:
        timings = complete(engine, 12)
        (request,) = ended(requests, base)
    finally:
        stop.set()
        other.join()
    assert request.decode_tok_per_s == pytest.approx(timings["predicted_per_second"], rel=0.02)


def test_our_own_engine_counts_its_graphs_and_lists_its_requests_in_full(watched, is_kvarn):
    if not is_kvarn:
        pytest.skip("this is a stock engine")
    engine, store, requests, _ = watched
    base = requests.revision
    complete(engine, 10)
    (request,) = ended(requests, base)
    assert request.finish == "limit"
    assert request.ttft_ms > 0
    assert request.queue_ms >= 0
    _wait(lambda: len(_finite(store, q.GRAPH_BUILT)[0]) > 1)
    assert _finite(store, q.GRAPH_BUILT)[1].sum() >= 1
    assert _finite(store, q.GRAPH_REUSED)[1].sum() >= 5
    _wait(lambda: any(mark.kind == "rebuild" for mark in store.marks(-math.inf, math.inf)))


def test_our_own_engine_tells_its_live_state_and_the_charts_have_it(watched, is_kvarn):
    if not is_kvarn:
        pytest.skip("this is a stock engine")
    engine, store, requests, link = watched
    base = requests.revision
    timings = complete(engine, 40, prompt="Once")  # its step must not outweigh those of the answer
    ended(requests, base)
    _wait(lambda: store.latest(q.REQUESTS_PROCESSING) == 0)
    assert link.live is not None
    assert [slot.phase for slot in link.live.slots] == ["idle", "idle"]
    assert q.KV_CELLS_USED not in link.state.absent
    assert store.latest(q.KV_CELLS) == 4096
    assert store.latest(q.KV_CELLS_USED) == pytest.approx(store.latest(q.CONTEXT_TOKENS_USED), abs=2)
    _, decode_ms = _finite(store, q.STEP_DECODE_MS)
    # One step a token: the call itself is nearly all of it. Two answers on a busy machine may differ by a factor.
    assert 1 / 4 < float(np.median(decode_ms)) / timings["predicted_per_token_ms"] < 4


def test_the_mapped_model_file_and_the_private_memory_of_the_engine_are_told_apart(watched, starter_model):
    _, store, _, _ = watched
    _wait(lambda: store.latest(q.ENGINE_MAPPED_BYTES) is not None)
    parts = (q.ENGINE_MAPPED_BYTES, q.ENGINE_PRIVATE_BYTES)
    # Between two of these readings may lie another look.
    _wait(lambda: sum(map(store.latest, parts)) == store.latest(q.ENGINE_RSS_BYTES))
    mapped, private = map(store.latest, parts)
    assert mapped > 0.5 * starter_model.stat().st_size
    assert private > 1 << 20


def test_a_trial_answer_costs_what_the_engines_own_list_says(watched, is_kvarn) -> None:
    engine, _store, requests, _ = watched
    if not is_kvarn:
        pytest.skip("this engine keeps no list of finished requests")
    chat, base = TrialChat(clock=SystemClock()), requests.revision
    chat.ask(ChatRequest(engine.url, (ChatTurn("user", "Name some kinds of mill."),), answer_tokens=12))
    _wait(lambda: not chat.take().is_running, 60)
    answer, (listed,) = chat.take(), ended(requests, base)
    assert (answer.problem, answer.finish) == (None, "length")
    figures = answer.figures
    assert (figures.prompt_tokens, figures.generated_tokens) == (listed.prompt_tokens, 12)
    assert figures.cached_tokens == listed.cached_tokens
    assert figures.prefill_tok_per_s == pytest.approx(listed.prefill_tok_per_s, rel=0.02)
    assert figures.decode_tok_per_s == pytest.approx(listed.decode_tok_per_s, rel=0.02)
    assert answer.ttft_ms >= listed.ttft_ms
    chat.close()


def test_stopping_a_trial_answer_frees_its_slot_within_3_s(starter_engine) -> None:
    chat, slots = TrialChat(clock=SystemClock()), f"{starter_engine.url}/slots"

    def freed_s() -> float:
        chat.ask(ChatRequest(starter_engine.url, (ChatTurn("user", "Tell a long story."),)))
        _wait(lambda: bool(chat.take().text))
        begun = time.monotonic()
        chat.cancel()
        _wait(lambda: chat.take().was_cancelled)
        _wait(lambda: not any(slot["is_processing"] for slot in httpx.get(slots, trust_env=False).json()))
        return time.monotonic() - begun

    promptly(freed_s, 3)
    chat.close()
