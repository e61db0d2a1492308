"""The graph counters of /metrics: exact, complete, and with the reason that really applied."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.engine

BUILT, REUSED = "kvarn:graph_built_total", "kvarn:graph_reused_total"
KV_PAD = 256


@pytest.fixture(scope="module")
def server(start_server):
    # One ubatch per decode call, so that the server's own count of decode calls is the number of ubatches.
    with start_server("-c", "4096", "-np", "1", "-b", "128", "-ub", "128", "--no-context-shift") as running:
        running.complete(n_predict=1)
        yield running


def reason(name: str) -> str:
    return f'kvarn:graph_rebuild_total{{reason="{name}"}}'


def change(before: dict[str, float], after: dict[str, float], name: str) -> float:
    return after[name] - before[name]


def test_every_ubatch_is_one_build_or_one_reuse(server):
    before = server.metrics()
    server.complete(n_predict=40, ignore_eos=True)
    after = server.metrics()
    ubatches = change(before, after, "llamacpp:n_decode_total")
    assert ubatches >= 40
    assert change(before, after, BUILT) + change(before, after, REUSED) == ubatches


def test_every_build_has_exactly_one_reason(server):
    server.complete(n_predict=4, ignore_eos=True)
    samples = server.metrics()
    reasons = {name: value for name, value in samples.items() if name.startswith("kvarn:graph_rebuild_total")}
    assert len(reasons) == 11
    assert sum(reasons.values()) == samples[BUILT]


@pytest.mark.parametrize(("prompt_tokens", "crossings"), [(250, 1), (520, 0), (764, 1)])
def test_growth_of_the_kv_window_is_counted_as_the_padding_arithmetic_says(server, prompt_tokens, crossings):
    server.complete([1000] * prompt_tokens, n_predict=1, cache_prompt=True)
    before = server.metrics()
    # From the cached prompt on, one token at a time; every token but the last one generated enters the cache.
    server.complete([1000] * prompt_tokens, n_predict=12, ignore_eos=True, cache_prompt=True)
    after = server.metrics()
    assert -(-(prompt_tokens + 11) // KV_PAD) - -(-prompt_tokens // KV_PAD) == crossings
    assert change(before, after, reason("kv_grew")) == crossings


def test_a_reading_changes_nothing_and_waits_for_nothing(server):
    first, second = server.metrics(), server.metrics()
    assert {k: v for k, v in first.items() if k.startswith("kvarn:")} == {
        k: v for k, v in second.items() if k.startswith("kvarn:")
    }


def test_a_switch_between_prompt_and_answer_is_named(server):
    before = server.metrics()
    # Two full batches without outputs, then one with: the last one cannot use the graph of the others.
    server.complete(list(range(1000, 1300)), n_predict=2)
    after = server.metrics()
    assert change(before, after, reason("output_switch")) >= 1
    assert change(before, after, reason("batch_shape")) >= 1


def test_graph_reuse_switched_off_is_the_reason_of_every_build(start_server):
    with start_server("-c", "512", "-np", "1", env={"LLAMA_GRAPH_REUSE_DISABLE": "1"}) as server:
        before = server.metrics()
        server.complete(n_predict=8, ignore_eos=True)
        after = server.metrics()
    assert after[REUSED] == 0
    assert change(before, after, BUILT) == change(before, after, reason("reuse_off")) >= 8


def test_counters_are_proper_prometheus_counters(server):
    text = server.http.get("/metrics").text
    for name in ("graph_built_total", "graph_reused_total", "graph_rebuild_total"):
        assert f"# TYPE kvarn:{name} counter" in text
        assert f"# HELP kvarn:{name} " in text


def test_large_counters_keep_their_last_digit(server):
    seconds = [v for k, v in server.metrics().items() if k == "llamacpp:prompt_seconds_total"]
    # Upstream prints six significant digits; microseconds of a run of seconds need more.
    assert len(str(seconds[0]).replace(".", "").lstrip("0")) > 6 or seconds[0] == round(seconds[0], 5)
