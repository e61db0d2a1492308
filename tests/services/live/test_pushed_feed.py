"""The link on an engine that sends its live state by itself: the same lines, one connection, gaps where it broke."""

from __future__ import annotations

import math
import threading
import time

import httpx
import psutil
import pytest

from kvarn.domain.live import quantities as q
from kvarn.domain.live.snapshot import snapshot
from kvarn.services.clock import SystemClock
from kvarn.services.live import pushed_feed, telemetry_link
from kvarn.services.live.bounded_events import bounded_events
from kvarn.services.live.engine_feed import FeedTrouble, TroubleKind
from kvarn.services.live.offered_feed import OfferedFeed
from kvarn.services.live.pushed_feed import MOST_UNREADABLE, STREAMS_TAKEN, UNREADABLE_STATE, EngineTime, PushedFeed
from live_rig import Rig
from patience import HANG_S


@pytest.fixture
def rig():
    rig = Rig()
    yield rig
    rig.link.close()


@pytest.fixture
def open_feed():
    feeds = []

    def make(engine, kind=PushedFeed, key=None):
        feeds.append(kind(engine.url + "/v1", key, SystemClock()))
        return feeds[-1]

    yield make
    for feed in feeds:
        feed.close()


def ask(engine, **body) -> threading.Thread:
    body = {"messages": [{"role": "user", "content": "hello " * 40}]} | body
    thread = threading.Thread(target=engine.answer, kwargs=body)
    thread.start()
    return thread


def connections_to(engine) -> int:
    port = int(engine.url.rsplit(":", 1)[1])
    mine = psutil.Process().net_connections("tcp")
    return sum(c.status == psutil.CONN_ESTABLISHED and bool(c.raddr) and c.raddr.port == port for c in mine)


def tells_its_cells(rig) -> bool:
    """The newest figures, once all of them are of one event."""
    now = snapshot(rig.store, time.monotonic())
    told = (now.requests_processing, now.kv_cells) == (1, 4096)
    return told and now.kv_cells_used == pytest.approx(now.context_tokens_used, abs=8)


def test_an_answer_is_watched_live_over_one_connection(rig, fake_engine, tmp_path):
    engine = fake_engine(live=1, token_s=0.02, talks_until=tmp_path / "now")
    rig.link.attach(engine.url + "/v1", engine.pid)
    rig.until(lambda: rig.link.state.connected)
    asking = ask(engine)
    rig.until(lambda: rig.store.latest(q.DECODE_TOK_PER_S) is not None)
    assert connections_to(engine) <= 2  # ours, and the question's own
    assert rig.link.live is not None
    assert rig.link.live.slots[0].phase == "decode"
    rig.until(lambda: tells_its_cells(rig))
    (tmp_path / "now").touch()
    asking.join()
    rig.until(lambda: snapshot(rig.store, time.monotonic()).is_idle)
    speeds = [v for v in rig.values(q.DECODE_TOK_PER_S) if not math.isnan(v)]
    assert speeds
    assert max(speeds) <= 50 * 1.15
    assert rig.store.latest(q.DECODE_TOK_PER_S) is None


def test_graph_counts_come_with_the_stream(rig, fake_engine):
    engine = fake_engine(live=1)
    rig.link.attach(engine.url, engine.pid)
    rig.until(lambda: rig.store.latest(q.GRAPH_BUILT_TOTAL) == 3)
    assert q.GRAPH_BUILT not in rig.link.state.absent
    assert "CUDA" in rig.link.state.absent[q.CUDA_CAPTURED]
    assert q.KV_CELLS_USED not in rig.link.state.absent


def test_an_engine_without_a_stream_is_polled_as_before(rig, fake_engine):
    engine = fake_engine("--metrics")
    rig.link.attach(engine.url, engine.pid)
    rig.until(lambda: rig.link.state.connected)
    assert rig.store.latest(q.REQUESTS_PROCESSING) == 0
    assert rig.link.live is None
    assert "does not tell its live state" in rig.link.state.absent[q.KV_CELLS_USED]


def test_when_every_stream_is_taken_the_engine_is_polled(fake_engine, open_feed):
    feed = open_feed(fake_engine("--metrics", live="full"), OfferedFeed)
    assert not isinstance(feed.next_frame(), FeedTrouble)
    assert not feed.is_pushed
    assert feed.absent[q.KV_CELLS_USED] == STREAMS_TAKEN


@pytest.mark.parametrize(("how", "tries"), [("odd", MOST_UNREADABLE), ("endless", 1)])
def test_a_live_state_that_cannot_be_read_leaves_polling(fake_engine, open_feed, how, tries):
    feed = open_feed(fake_engine("--metrics", live=how), OfferedFeed)
    assert all(isinstance(feed.next_frame(), FeedTrouble) for _ in range(tries - 1))
    assert not isinstance(feed.next_frame(), FeedTrouble)
    assert not feed.is_pushed
    assert feed.absent[q.KV_CELLS_USED].startswith(UNREADABLE_STATE)
    assert feed.dropped == tries


@pytest.mark.parametrize(("how", "dropped"), [("shaky", 0), ("smudged", 2)])
def test_trouble_that_passes_leaves_the_stream(fake_engine, open_feed, how, dropped):
    feed = open_feed(fake_engine("--metrics", live=how), OfferedFeed)
    for _ in range(2):
        trouble = feed.next_frame()
        assert isinstance(trouble, FeedTrouble)
        assert trouble.kind is TroubleKind.UNREADABLE
    assert not isinstance(feed.next_frame(), FeedTrouble)
    assert feed.is_pushed
    assert feed.dropped == dropped


def test_an_event_without_an_end_is_not_waited_for(fake_engine, open_feed):
    trouble = open_feed(fake_engine(live="endless")).next_frame()
    assert isinstance(trouble, FeedTrouble)
    assert trouble.kind is TroubleKind.UNREADABLE
    assert "longer than 1,024 KiB" in trouble.message


@pytest.mark.parametrize("how", ["drip", "pings"])
def test_bytes_that_never_make_an_event_are_not_waited_for(fake_engine, open_feed, how, monkeypatch):
    monkeypatch.setattr(pushed_feed, "MOST_EVENT_S", 0.2)
    trouble = open_feed(fake_engine(live=how)).next_frame()
    assert isinstance(trouble, FeedTrouble)
    assert trouble.kind is TroubleKind.SILENT


def test_each_event_has_its_own_time(fake_engine, open_feed, monkeypatch):
    monkeypatch.setattr(pushed_feed, "MOST_EVENT_S", 2.0)
    feed = open_feed(fake_engine(live=1))
    begun_s = time.monotonic()
    while time.monotonic() < begun_s + 3:
        assert not isinstance(feed.next_frame(), FeedTrouble)


def stream_of(body: bytes, **headers: str) -> httpx.Response:
    headers = {"Content-Type": "text/event-stream; charset=hex"} | headers
    return httpx.Response(200, headers=headers, content=iter([body]))


def test_an_event_is_utf_8_whatever_the_charset_is_called():
    (event,) = bounded_events(stream_of("data: 🌾\n\n".encode()), 5)
    assert event.data == "🌾"


def test_packed_events_are_refused_and_those_called_unpacked_are_read():
    (event,) = bounded_events(stream_of(b"data: 1\n\n", **{"Content-Encoding": "Identity"}), 5)
    assert event.data == "1"
    with pytest.raises(httpx.DecodingError, match="packed"):
        next(bounded_events(stream_of(b"data: 1\n\n", **{"Content-Encoding": "gzip"}), 5))


@pytest.mark.parametrize("how", ["cut", "end"])
def test_a_stream_that_breaks_is_a_gap_and_is_opened_again(rig, fake_engine, how, monkeypatch):
    # On a busy machine the pace changes, and a stream opened anew for that is no gap.
    monkeypatch.setattr(telemetry_link, "is_crowded", lambda _readings, _now_s: False)
    engine = fake_engine(live=how)
    rig.link.attach(engine.url, engine.pid)
    rig.until(lambda: rig.link.state.frames >= 7)
    assert sum(math.isnan(v) for v in rig.values(q.REQUESTS_PROCESSING)) >= 2
    assert rig.store.latest(q.GRAPH_BUILT_TOTAL) in (3, None)


def test_an_event_that_cannot_be_read_is_trouble_and_counted(fake_engine, open_feed):
    feed = open_feed(fake_engine(live="odd"))
    trouble = feed.next_frame()
    assert isinstance(trouble, FeedTrouble)
    assert trouble.kind is TroubleKind.UNREADABLE
    assert feed.dropped == 1


def test_a_wrong_key_is_named(fake_engine, open_feed, tmp_path):
    (tmp_path / "key").write_text("right-key\n")
    engine = fake_engine("--api-key-file", str(tmp_path / "key"), live=1)
    trouble = open_feed(engine, key="wrong").next_frame()
    assert isinstance(trouble, FeedTrouble)
    assert trouble.kind is TroubleKind.WRONG_KEY
    assert not isinstance(open_feed(engine, key="right-key").next_frame(), FeedTrouble)


def test_an_engine_that_loads_is_called_loading(fake_engine, open_feed):
    feed = open_feed(fake_engine(ready=False, never_ready=1, live=1))
    end = time.monotonic() + HANG_S
    while (trouble := feed.next_frame()).kind is TroubleKind.UNREACHABLE and time.monotonic() < end:
        time.sleep(0.05)
    assert trouble.kind is TroubleKind.LOADING


def test_an_engine_that_dies_leaves_a_gap_and_a_sentence(rig, fake_engine):
    engine = fake_engine(live=1)
    rig.link.attach(engine.url, engine.pid)
    rig.until(lambda: rig.store.latest(q.REQUESTS_PROCESSING) == 0)
    engine.end()
    rig.until(lambda: rig.link.state.trouble is TroubleKind.UNREACHABLE)
    assert rig.store.latest(q.REQUESTS_PROCESSING) is None
    assert rig.link.live is None
    assert rig.link.state.reason


def test_an_unwatched_console_takes_one_event_a_second(fake_engine, open_feed):
    feed = open_feed(fake_engine(live=1))
    feed.pace(1)
    made_s = [feed.next_frame().live.now_ns / 1e9 for _ in range(2)]
    assert made_s[1] - made_s[0] > 0.95
    feed.pace(20)
    made_s = [feed.next_frame().live.now_ns / 1e9 for _ in range(9)]
    assert made_s[8] - made_s[0] < 4, "eight events at the old pace take twice as long"


def test_events_that_waited_keep_the_distance_at_which_they_were_made():
    time_of = EngineTime()
    assert time_of.at(1_000_000_000, 50.0) == 50.0
    # Both arrive together, half a second late: the second was made a quarter of a second after the first.
    first, second = time_of.at(2_000_000_000, 51.5), time_of.at(2_250_000_000, 51.5)
    assert second - first == pytest.approx(0.25)
    assert second <= 51.5


def test_time_never_goes_back_when_an_event_was_quicker_than_all_before():
    time_of = EngineTime()
    slow = time_of.at(1_000_000_000, 53.0)
    assert time_of.at(1_010_000_000, 51.0) >= slow
