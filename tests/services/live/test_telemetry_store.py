from __future__ import annotations

import math

import msgspec
import numpy as np

from kvarn.domain.live import quantities as q
from kvarn.domain.live.request import FinishedRequest
from kvarn.domain.live.snapshot import snapshot
from kvarn.services.live.request_log import RequestLog
from kvarn.services.live.telemetry_store import MARKS_KEPT, TelemetryStore


def test_a_gap_ends_the_line_once_and_the_next_sample_begins_a_new_one():
    store = TelemetryStore(capacity=8)
    store.gap("x", 0)
    store.append("x", 1, 10)
    store.gap("x", 2)
    store.gap("x", 3)
    store.append("x", 4, 20)
    t, v = store.window("x", 0, 9)
    np.testing.assert_array_equal(t, [1, 2, 4])
    np.testing.assert_array_equal(v, [10, math.nan, 20])


def test_the_latest_value_is_absent_in_a_gap_and_for_an_unknown_name():
    store = TelemetryStore(capacity=8)
    assert store.latest("x") is None
    store.append("x", 1, 10)
    assert store.latest("x") == 10
    store.append("x", 2, math.inf)
    assert store.latest("x") is None
    assert store.last_finite("x") == (1, 10)


def test_the_revision_moves_with_every_change_and_only_then():
    store = TelemetryStore(capacity=8)
    seen = [store.revision]
    store.append("x", 1, 10)
    seen.append(store.revision)
    store.mark(2, "ready", "model loaded")
    seen.append(store.revision)
    assert len(set(seen)) == 3
    store.append("x", 0.5, 9)
    store.window("x", 0, 9)
    assert store.revision == seen[-1]


def test_a_storm_of_rebuilds_pushes_no_error_off_the_chart():
    store = TelemetryStore()
    store.mark(0, "error", "it died")
    for second in range(MARKS_KEPT + 10):
        store.mark(second, "rebuild", "the batch grew")
    store.mark(MARKS_KEPT + 10, "ready", "up again")
    marks = store.marks(0, MARKS_KEPT + 10)
    assert (marks[0].kind, marks[-1].kind, len(marks)) == ("error", "ready", MARKS_KEPT + 2)


def test_marks_are_found_by_time_and_a_clear_forgets_all():
    store = TelemetryStore(capacity=8)
    store.mark(1, "load", "starter")
    store.mark(5, "error", "it died")
    assert [m.kind for m in store.marks(0, 4)] == ["load"]
    store.append("x", 1, 10)
    store.clear()
    assert store.marks(0, 9) == ()
    assert store.names() == ()


def test_a_snapshot_of_nothing_is_all_unknown_and_never_zero():
    values = msgspec.to_builtins(snapshot(TelemetryStore(capacity=8), 100.0))
    assert values
    assert set(values.values()) == {None}


def test_a_snapshot_shows_what_is_fresh_and_keeps_the_last_speed_for_the_idle_headline():
    store = TelemetryStore(capacity=256)
    for t in range(100):
        store.append(q.GRAPH_BUILT, t, 1)
        store.append(q.GRAPH_BUILT_TOTAL, t, t)
    store.append(q.DECODE_TOK_PER_S, 90, 52.5)
    store.gap(q.DECODE_TOK_PER_S, 91)
    store.append(q.REQUESTS_PROCESSING, 99, 0)
    store.append(q.VRAM_USED_BYTES, 50, 1e9)
    now = snapshot(store, 99.5)
    assert now.decode_tok_per_s is None
    assert now.last_decode_tok_per_s == 52.5
    assert now.vram_used_bytes is None
    assert now.graph_builds_per_min == 60
    assert now.graph_built_total == 99
    assert now.is_idle


def test_a_new_run_has_no_last_speed_while_the_chart_keeps_the_old_line():
    store = TelemetryStore(capacity=8)
    store.append(q.DECODE_TOK_PER_S, 90, 24.0)
    store.append(q.ANSWER_TOK_PER_S, 91, 21.5)
    store.begin_run(100)
    now = snapshot(store, 101)
    assert (now.last_decode_tok_per_s, now.last_answer_tok_per_s) == (None, None)
    assert store.window(q.DECODE_TOK_PER_S, 0, 101)[1].tolist() == [24.0]
    store.append(q.ANSWER_TOK_PER_S, 102, 30.0)
    assert snapshot(store, 103).last_answer_tok_per_s == 30.0


def test_the_request_log_is_bounded_and_read_by_revision():
    log = RequestLog(capacity=3)
    for task in range(5):
        log.append(FinishedRequest(ended_s=task, task=task))
    assert log.revision == 5
    held, revision = log.since(0)
    assert ([r.task for r in held], revision) == ([2, 3, 4], 5)
    assert [r.task for r in log.since(4)[0]] == [4]
    assert log.since(5) == ((), 5)


def test_acceptance_is_absent_without_speculation():
    assert FinishedRequest(ended_s=0, drafted_tokens=10, accepted_tokens=7).acceptance == 0.7
    assert FinishedRequest(ended_s=0).acceptance is None
    assert FinishedRequest(ended_s=0, drafted_tokens=0, accepted_tokens=0).acceptance is None
