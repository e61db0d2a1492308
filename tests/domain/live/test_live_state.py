"""The engine's live state as captured, and what the charts make of it."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from kvarn.domain.live import quantities as q
from kvarn.domain.live.engine_meter import EngineMeter
from kvarn.domain.live.live_frame import frame_of
from kvarn.domain.live.live_state import LiveState, parse_live

SAMPLES = Path(__file__).resolve().parents[3] / "engine" / "protocol" / "live.samples"


def sample(name: str) -> dict:
    return json.loads((SAMPLES / f"{name}.json").read_text())


def state(raw: dict) -> LiveState:
    parsed = parse_live(json.dumps(raw))
    assert parsed is not None
    return parsed


def running(seq: int, decoded: int, decode_ms: float, generated_before: int = 0, ms_before: float = 0.0) -> LiveState:
    """Slot 0 in the middle of an answer, after earlier ones of so many tokens."""
    raw = sample("decode")
    raw["seq"] = seq
    raw["slots"][0] |= {"decoded": decoded, "decode_ms": decode_ms, "phase": "decode"}
    raw["tokens"] |= {"generated_total": generated_before + decoded, "generated_ms_total": ms_before + decode_ms}
    return state(raw)


@pytest.mark.parametrize("name", ["idle", "prefill", "decode"])
def test_every_captured_sample_is_read_whole(name):
    raw, read = sample(name), state(sample(name))
    assert read.seq == raw["seq"]
    assert [slot.phase for slot in read.slots] == [slot["phase"] for slot in raw["slots"]]
    assert read.kv.caches[0].cells_used == raw["kv"]["caches"][0]["cells_used"]
    assert read.graphs is not None
    assert sum(read.graphs.reasons.values()) == read.graphs.built
    assert msgspec.to_builtins(read)["tokens"] == pytest.approx(raw["tokens"])


def test_names_of_a_newer_engine_are_skipped_and_missing_sections_are_none():
    raw = sample("idle")
    raw["weather"] = "fine"
    raw["slots"][0]["mood"] = [1, 2]
    for name in ("steps", "graphs", "checkpoints", "prompt_cache"):
        del raw[name]
    read = state(raw)
    assert read.steps is read.graphs is read.checkpoints is read.prompt_cache is read.speculation is None


def test_optional_sections_are_read_where_they_are():
    raw = sample("decode")
    raw["speculation"] = {"kind": "draft-mtp", "depth": 3, "drafted": 9, "accepted": 6, "acceptance": [0.9, 0.5, None]}
    raw["graphs"]["cuda"] = [{"device": "CUDA0", "captures": 4, "replays": 100, "eager": {"first": 2}}]
    raw["checkpoints"] |= {"budget_bytes": 1 << 20, "evicted": 2}
    raw["kv"]["pad"] = {"policy": "auto", "cells": 512}
    read = state(raw)
    assert read.speculation is not None
    assert read.speculation.acceptance == (0.9, 0.5, None)
    assert read.graphs is not None
    assert read.graphs.cuda is not None
    assert read.graphs.cuda[0].captures == 4
    counters = frame_of(read, 0.0, ()).counters
    assert counters is not None
    assert counters.cuda_captured == 4
    assert read.checkpoints is not None
    assert read.checkpoints.budget_bytes == 1 << 20
    assert read.kv.pad is not None
    assert read.kv.pad.cells == 512


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b"{",
        b"\xff\xfe",
        b'{"version": 2, "seq": 1, "published": 1}',
        b'{"version": 1}',
        b"[" * 9999,
    ],
)
def test_what_cannot_be_read_is_none_and_never_raises(body):
    assert parse_live(body) is None


def test_a_broken_count_is_not_read():
    raw = sample("idle")
    raw["tokens"]["generated_total"] = -5
    assert parse_live(json.dumps(raw)) is None


def test_an_answer_that_still_runs_is_no_ended_request():
    meter = EngineMeter()
    values = []
    for number in range(12):
        seen = running(
            number + 1, decoded=1 + 10 * number, decode_ms=250.0 * number, generated_before=70, ms_before=900
        )
        values += meter.read(frame_of(seen, number * 0.25, ())).points
    speeds = [p.value for p in values if p.name == q.DECODE_TOK_PER_S and p.value is not None]
    assert speeds
    assert all(abs(speed - 40) < 0.5 for speed in speeds)


def test_an_answer_that_began_and_ended_between_two_looks_is_drawn_over_the_time_it_took():
    before, after = sample("idle"), sample("idle")
    after["slots"][0]["task"] = (before["slots"][0]["task"] or 0) + 1
    after["tokens"]["generated_total"] += 51
    after["tokens"]["generated_ms_total"] += 200.0
    meter = EngineMeter()
    meter.read(frame_of(state(before), 0.0, ()))
    points = meter.read(frame_of(state(after), 0.5, ())).points
    drawn = [(p.t_s, p.value) for p in points if p.name == q.DECODE_TOK_PER_S and p.value is not None]
    assert drawn == [(0.3, pytest.approx(250)), (0.5, pytest.approx(250))]


def test_steps_are_means_since_the_last_look_and_a_gap_while_there_was_none():
    first, second = sample("decode"), sample("decode")
    second["steps"]["count"] += 4
    second["steps"]["decode_ms_total"] += 40.0
    second["steps"]["sampling_ms_total"] += 2.0
    meter = EngineMeter()
    looks = [meter.read(frame_of(state(raw), t, ())) for t, raw in enumerate((first, second, second))]
    decode = [[p.value for p in look.points if p.name == q.STEP_DECODE_MS] for look in looks]
    assert decode == [[None], [pytest.approx(10)], [None]]
    sampling = [p.value for p in looks[1].points if p.name == q.STEP_SAMPLING_MS]
    assert sampling == [pytest.approx(0.5)]


def test_cells_and_bytes_come_from_the_engine_itself():
    raw = sample("decode")
    points = {p.name: p.value for p in EngineMeter().read(frame_of(state(raw), 0.0, ())).points}
    assert points[q.KV_CELLS_USED] == raw["kv"]["caches"][0]["cells_used"]
    assert points[q.KV_CELLS] == raw["kv"]["caches"][0]["cells"]
    assert points[q.CHECKPOINT_BYTES] == raw["checkpoints"]["bytes"]
    assert points[q.SPECULATION_DEPTH] is None
