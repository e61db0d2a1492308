from __future__ import annotations

import math
import socket
import statistics
import sys
import threading
import time
from pathlib import Path

import msgspec
import pytest

from kvarn.domain.live import quantities as q
from kvarn.domain.live.engine_meter import EngineFrame
from kvarn.domain.live.request import FinishedRequest
from kvarn.domain.live.snapshot import snapshot
from kvarn.services.clock import SystemClock
from kvarn.services.live import machine_watch, telemetry_link
from kvarn.services.live.engine_feed import TroubleKind
from kvarn.services.live.gpu_probe import GpuProbe, GpuReading
from kvarn.services.live.machine_probe import MachineReading
from kvarn.services.live.polling_feed import REQUESTS, root_of
from kvarn.services.live.request_log import RequestLog
from kvarn.services.live.telemetry_link import TelemetryLink
from kvarn.services.live.telemetry_store import TelemetryStore
from live_rig import Rig
from patience import eventually


@pytest.fixture
def rig():
    rig = Rig()
    yield rig
    rig.link.close()


def ask(engine, **body) -> threading.Thread:
    body = {"messages": [{"role": "user", "content": "hello " * 40}]} | body
    thread = threading.Thread(target=engine.answer, kwargs=body)
    thread.start()
    return thread


def speeds_of(rig) -> list[float]:
    return [v for v in rig.values(q.DECODE_TOK_PER_S) if not math.isnan(v)]


def test_an_answer_is_watched_live_and_its_end_is_a_gap(rig, fake_engine, tmp_path):
    engine = fake_engine("--metrics", "--slots", token_s=0.02, talks_until=tmp_path / "now")
    rig.link.attach(engine.url + "/v1", engine.pid)
    rig.until(lambda: rig.link.state.connected)
    asking = ask(engine)
    rig.until(lambda: len(speeds_of(rig)) >= 6)
    rig.until(lambda: (now := snapshot(rig.store, time.monotonic())).requests_processing == 1 and not now.is_idle)
    rig.until(lambda: (snapshot(rig.store, time.monotonic()).engine_rss_bytes or 0) > 1_000_000)
    (tmp_path / "now").touch()
    asking.join()
    rig.until(lambda: snapshot(rig.store, time.monotonic()).is_idle)
    speeds = speeds_of(rig)
    # A look that was held up makes the next one too high.
    assert statistics.median(speeds) <= 50 * 1.15
    assert rig.store.latest(q.DECODE_TOK_PER_S) is None
    assert snapshot(rig.store, time.monotonic()).last_decode_tok_per_s == speeds[-1]


def test_our_requests_carry_the_key_and_a_wrong_one_is_not_called_down(rig, fake_engine, tmp_path):
    (tmp_path / "key").write_text("right-key\n")
    engine = fake_engine("--metrics", "--api-key-file", str(tmp_path / "key"))
    rig.link.attach(engine.url, engine.pid, "wrong-key")
    rig.until(lambda: rig.link.state.trouble is TroubleKind.WRONG_KEY)
    assert "wrong key" in rig.link.state.reason
    assert "right-key" not in rig.link.state.reason
    rig.link.attach(engine.url, engine.pid, "right-key")
    rig.until(lambda: rig.link.state.connected)
    assert rig.link.state.reason == ""


def test_an_engine_that_dies_leaves_a_gap_and_a_sentence_and_its_successor_is_found(rig, fake_engine):
    first = fake_engine("--metrics")
    rig.link.attach(first.url, first.pid)
    rig.until(lambda: rig.store.latest(q.REQUESTS_PROCESSING) == 0)
    first.end()
    rig.until(lambda: rig.link.state.trouble is TroubleKind.UNREACHABLE)
    assert "cannot be reached" in rig.link.state.reason
    assert rig.store.latest(q.REQUESTS_PROCESSING) is None
    rig.until(lambda: rig.store.latest(q.ENGINE_RSS_BYTES) is None)
    second = fake_engine("--metrics")
    rig.link.attach(second.url, second.pid)
    rig.until(lambda: rig.store.latest(q.REQUESTS_PROCESSING) == 0)
    assert sum(math.isnan(v) for v in rig.values(q.REQUESTS_PROCESSING)) == 1


def test_an_engine_still_loading_is_called_loading(rig, fake_engine):
    engine = fake_engine("--metrics", ready=False, never_ready=1)
    rig.link.attach(engine.url, engine.pid)
    rig.until(lambda: rig.link.state.trouble is TroubleKind.LOADING)


def test_a_stock_engine_without_metrics_says_which_quantities_are_missing_and_why(rig, fake_engine):
    engine = fake_engine()
    rig.link.attach(engine.url, engine.pid)
    rig.until(lambda: rig.link.state.connected)
    absent = rig.link.state.absent
    assert absent[q.GRAPH_BUILT] == "this engine was started without --metrics"
    assert REQUESTS in absent
    assert q.DECODE_TOK_PER_S not in absent
    assert rig.store.latest(q.REQUESTS_PROCESSING) == 0


def test_graph_counts_a_stock_engine_lacks_are_absent_with_the_reason_and_never_zero(rig, fake_engine):
    engine = fake_engine("--metrics")
    rig.link.attach(engine.url, engine.pid)
    rig.until(lambda: rig.link.state.connected)
    assert "does not count graph builds" in rig.link.state.absent[q.GRAPH_BUILT]
    assert snapshot(rig.store, time.monotonic()).graph_builds_per_min is None
    assert rig.values(q.GRAPH_BUILT) == []


@pytest.mark.parametrize(("kind", "is_dropped"), [("nan", True), ("huge", True), ("reset", False), ("zero", False)])
def test_broken_counters_are_dropped_and_counted_and_never_drawn(rig, fake_engine, kind, is_dropped, monkeypatch):
    monkeypatch.setattr(telemetry_link, "IDLE_S", 0.05)
    engine = fake_engine("--metrics", metrics=kind)
    rig.link.attach(engine.url, engine.pid)
    rig.until(lambda: rig.link.state.frames >= 5)
    assert (rig.link.state.dropped_values > 0) is is_dropped
    assert [v for v in rig.values(q.DECODE_TOK_PER_S) if not math.isnan(v)] == []
    assert rig.store.latest(q.REQUESTS_PROCESSING) == 0


def test_detaching_ends_the_lines_and_the_machine_is_read_on(rig, fake_engine):
    engine = fake_engine("--metrics")
    rig.link.attach(engine.url, engine.pid)
    rig.until(lambda: rig.link.state.connected)
    rig.link.detach()
    rig.until(lambda: not rig.link.state.attached)
    assert rig.store.latest(q.REQUESTS_PROCESSING) is None
    count = len(rig.values(q.SYSTEM_RAM_USED_BYTES))
    rig.until(lambda: len(rig.values(q.SYSTEM_RAM_USED_BYTES)) > count)


def test_attach_detach_and_close_return_at_once_while_an_engine_stays_silent(rig):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        rig.link.attach(f"http://127.0.0.1:{silent.getsockname()[1]}", 1)
        asked, _ = silent.accept()
        with asked:
            assert asked.recv(1)
            begun = time.monotonic()
            rig.link.detach()
            rig.link.close(0.2)
            assert time.monotonic() - begun < 30, "half of what the engine is waited for"


def test_gpu_readings_of_all_cards_are_summed_and_a_missing_driver_is_a_reason(monkeypatch):
    monkeypatch.setenv("FAKE_NVML", "two")
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "fakes" / "fake_nvml"))
    monkeypatch.delitem(sys.modules, "pynvml", raising=False)
    rig = Rig(GpuProbe())
    rig.link.start()
    try:
        rig.until(lambda: rig.store.latest(q.VRAM_USED_BYTES) is not None)
        assert rig.store.latest(q.VRAM_USED_BYTES) == 7 * (1 << 30)
        assert rig.store.latest(q.GPU_UTIL_PERCENT) == 38
        assert rig.store.latest(q.GPU_POWER_W) == 225
        assert len(rig.link.state.gpus) == 2
    finally:
        rig.link.close()
        sys.modules.pop("pynvml", None)


@pytest.mark.parametrize(
    ("endpoint", "root"),
    [
        ("http://127.0.0.1:5827/v1", "http://127.0.0.1:5827"),
        ("http://0.0.0.0:5827/v1/", "http://127.0.0.1:5827"),
        ("http://localhost:5827", "http://localhost:5827"),
    ],
)
def test_the_root_of_an_endpoint_is_one_that_can_be_connected_to(endpoint, root):
    assert root_of(endpoint) == root


def test_a_reading_nobody_foresaw_does_not_end_the_measuring(caplog, monkeypatch):
    monkeypatch.setattr(telemetry_link, "LONGEST_BACKOFF_S", 0.05)

    class BrokenOnce(GpuProbe):
        looks = 0

        def read(self, engine_pid: int | None = None) -> tuple[GpuReading, ...]:
            self.looks += 1
            if self.looks == 1:
                raise RuntimeError("what is this?")
            return ()

    probe = BrokenOnce()
    rig = Rig(probe)
    rig.link.gpu_every_s = 0.1
    rig.link.start()
    rig.until(lambda: probe.looks > 1)
    rig.link.close()
    assert "the telemetry met a defect" in caplog.text
    caplog.clear()


def test_the_gpu_is_asked_as_often_as_wanted_and_no_oftener(monkeypatch):
    monkeypatch.setattr(machine_watch, "MACHINE_S", 0.02)

    class CountingProbe(GpuProbe):
        looks = 0

        def read(self, engine_pid: int | None = None) -> tuple[GpuReading, ...]:
            self.looks += 1
            return ()

    probe = CountingProbe()
    rig = Rig(probe)
    rig.link.gpu_every_s = 3600
    rig.link.start()
    rig.until(lambda: len(rig.values(q.SYSTEM_RAM_USED_BYTES)) >= 5)
    rig.link.close()
    assert probe.looks == 1


class PacedFeed:
    """Sends nothing, and notes how often it is asked to."""

    is_pushed = True
    dropped = 0

    def __init__(self) -> None:
        self.absent: dict[str, str] = {}
        self.paces: list[int] = []

    def pace(self, per_s: int) -> None:
        self.paces.append(per_s)

    def next_frame(self) -> EngineFrame:
        time.sleep(0.01)
        return EngineFrame(t_s=time.monotonic())

    def close(self) -> None:
        """Nothing is held."""


class AnsweredFeed(PacedFeed):
    """Lists one finished answer in its first frame."""

    def __init__(self, tok_per_s: float) -> None:
        super().__init__()
        self._speeds = [tok_per_s]

    def next_frame(self) -> EngineFrame:
        frame, speeds, self._speeds = super().next_frame(), self._speeds, []
        finished = tuple(FinishedRequest(ended_s=frame.t_s, decode_tok_per_s=speed) for speed in speeds)
        return msgspec.structs.replace(frame, finished=finished)


def test_the_last_answers_speed_is_that_of_the_list_until_another_engine_comes():
    feeds = [AnsweredFeed(21.5), PacedFeed()]
    store, requests = TelemetryStore(), RequestLog()
    link = TelemetryLink(store, requests, clock=SystemClock(), make_feed=lambda *_: feeds.pop(0))
    link.attach("http://127.0.0.1:1", 1)
    eventually(lambda: snapshot(store, time.monotonic()).last_answer_tok_per_s == 21.5)
    link.attach("http://127.0.0.1:1", 2)
    eventually(lambda: snapshot(store, time.monotonic()).last_answer_tok_per_s is None)
    link.close()


@pytest.mark.parametrize(
    ("cpu_percent", "watched", "per_s"), [(50, True, 4), (None, True, 4), (97, True, 2), (97, False, 1)]
)
def test_the_engine_sends_less_often_where_no_core_is_free(monkeypatch, cpu_percent, watched, per_s):
    monkeypatch.setattr(
        machine_watch.MachineProbe,
        "read",
        lambda _self, _pid: MachineReading(
            ram_total_bytes=1, ram_available_bytes=1, ram_used_bytes=0, cpu_percent=cpu_percent
        ),
    )
    feed = PacedFeed()
    link = TelemetryLink(TelemetryStore(), RequestLog(), clock=SystemClock(), make_feed=lambda _url, _key, _clock: feed)
    link.is_watched = watched
    link.attach("http://127.0.0.1:1/v1", 1)
    eventually(lambda: len(feed.paces) >= 5)
    link.close()
    assert set(feed.paces[1:]) == {per_s}
