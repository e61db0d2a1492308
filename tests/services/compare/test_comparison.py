"""A comparison at work, with a stand-in for the benchmark: what fails is told, what was found is kept."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from compare_maker import Q8, QUALITY, make_setup, quality, speed
from hand_clock import HandClock
from kvarn.domain.compare.kv_pair import REFERENCE, KvPair
from kvarn.domain.compare.measured import QualitySample, Refusal, Sample, SpeedSample
from kvarn.domain.compare.steps import is_complete
from kvarn.services.compare import comparison
from kvarn.services.compare.comparison import ComparisonRun, Progress
from kvarn.services.compare.program_run import Cancelled
from patience import eventually

FAKE_BENCH = Path(__file__).parents[2] / "fakes" / "fake_bench.py"
TCQ = KvPair("tcq4_0", "tcq4_0")

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the stand-in is a shell script")


@pytest.fixture
def bench_dir(tmp_path: Path) -> Path:
    """An engine folder whose `llama-bench` is tests/fakes/fake_bench.py."""
    program = tmp_path / "llama-bench"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{FAKE_BENCH}" "$@"\n')
    program.chmod(0o755)
    return tmp_path


class Lab:
    """One comparison of speed, and what it said."""

    def __init__(self, folder: Path, samples: tuple[Sample, ...] = (), **changes) -> None:
        self.kept: list[Sample] = []
        self.progress: list[Progress] = []
        self.stop = threading.Event()
        self.free_bytes: int | None = None
        given = {"engine_dir": str(folder), "quality": None, "pairs": (REFERENCE, Q8, TCQ), "rounds": 1, **changes}
        self.setup = make_setup(**given)
        self.run = ComparisonRun(
            self.setup,
            samples,
            keep=self.kept.append,
            on_progress=self.progress.append,
            cancelled=self.stop.is_set,
            free_bytes=lambda: self.free_bytes,
            clock=HandClock(),
        )


def test_every_cell_is_measured_and_kept(bench_dir):
    lab = Lab(bench_dir)
    lab.run.measure()
    assert is_complete(lab.setup, lab.kept)
    assert tuple(lab.kept) == lab.run.samples
    found = {(s.pair.name, s.depth): s.decode_tok_per_s for s in lab.kept if isinstance(s, SpeedSample)}
    assert found["f16", 0] == 100.0
    assert found["q8_0", 512] == pytest.approx(150 / 1.125)
    assert [p.done for p in lab.progress] == list(range(1, 9))
    assert lab.progress[-1].total == 8


def test_a_pair_that_fails_is_told_with_the_programs_last_word_and_the_others_go_on(bench_dir, monkeypatch):
    monkeypatch.setenv("FAKE_BENCH_REFUSES", "tcq4_0")
    lab = Lab(bench_dir)
    lab.run.measure()
    refusals = [s for s in lab.kept if isinstance(s, Refusal)]
    assert {(r.pair, r.depth) for r in refusals} == {(TCQ, 0), (TCQ, 512)}
    assert all("failed to create context" in r.message for r in refusals)
    assert is_complete(lab.setup, lab.kept)


def test_a_program_that_says_nothing_is_a_refusal(bench_dir, monkeypatch):
    monkeypatch.setenv("FAKE_BENCH_SILENT", "1")
    lab = Lab(bench_dir, pairs=(REFERENCE,), depths=(0,))
    lab.run.measure()
    assert [type(s) for s in lab.kept] == [Refusal]
    assert "did not tell" in lab.kept[0].message


def test_a_missing_program_is_a_refusal(tmp_path):
    lab = Lab(tmp_path, pairs=(REFERENCE,), depths=(0,))
    lab.run.measure()
    assert isinstance(lab.kept[0], Refusal)


def test_what_does_not_fit_is_not_started(bench_dir, tmp_path, monkeypatch):
    monkeypatch.setenv("FAKE_BENCH_LOG", str(tmp_path / "log"))
    lab = Lab(bench_dir, pairs=(REFERENCE,), depths=(0,))
    lab.free_bytes = 4999
    lab.run.measure()
    assert "does not fit: needs 4.9 KiB" in lab.kept[0].message
    assert not (tmp_path / "log").exists()


def test_only_what_is_left_is_measured(bench_dir, tmp_path, monkeypatch):
    monkeypatch.setenv("FAKE_BENCH_LOG", str(tmp_path / "log"))
    before = (speed(REFERENCE, 99.0), speed(Q8, 99.0))
    lab = Lab(bench_dir, before, depths=(0,), pairs=(REFERENCE, Q8, KvPair("q8_0", "tbq4_0")))
    lab.run.measure()
    assert (tmp_path / "log").read_text().split("\n") == ["q8_0/tbq4_0 0", "f16/f16 0", ""]
    assert lab.run.samples[:2] == before


def test_a_step_measured_twice_is_one_sample(bench_dir, monkeypatch):
    """As when a resumed text is read again by pairs that had read it."""
    lab = Lab(bench_dir, quality=QUALITY, pairs=(REFERENCE, Q8), depths=(0,))
    first, second = (quality(Q8, 0, [value], 1) for value in (0.1, 0.2))

    def read(_setup, _chunks, _pairs, *, on_sample, **_others) -> None:
        on_sample(first)
        on_sample(second)

    monkeypatch.setattr(comparison, "run_quality", read)
    lab.run.measure()
    assert [s for s in lab.run.samples if isinstance(s, QualitySample)] == [second]


@pytest.mark.parametrize(("free_bytes", "groups"), [(9000, 1), (8999, 3), (None, 1)])
def test_pairs_read_side_by_side_only_where_memory_allows(bench_dir, monkeypatch, free_bytes, groups):
    lab = Lab(bench_dir, quality=QUALITY, depths=(0,))
    lab.free_bytes = free_bytes
    asked = []
    monkeypatch.setattr(comparison, "run_quality", lambda _setup, chunks, pairs, **_: asked.append((chunks, pairs)))
    lab.run.measure()
    assert len(asked) == groups
    assert [pair for _, pairs in asked for pair in pairs] == list(lab.setup.pairs)
    assert all(chunks == (0, 1) for chunks, _ in asked)


def test_a_cancelled_run_ends_its_program_and_keeps_what_it_had(bench_dir, tmp_path, monkeypatch):
    gate, log = tmp_path / "gate", tmp_path / "log"
    monkeypatch.setenv("FAKE_BENCH_WAITS", str(gate))
    monkeypatch.setenv("FAKE_BENCH_LOG", str(log))
    lab = Lab(bench_dir)
    ended: list[BaseException] = []

    def measure() -> None:
        try:
            lab.run.measure()
        except Cancelled as error:
            ended.append(error)

    thread = threading.Thread(target=measure)
    thread.start()
    eventually(log.exists)
    lab.stop.set()
    thread.join(30)
    assert len(ended) == 1
    assert lab.kept == [], "a step cut short is no figure and no refusal"
