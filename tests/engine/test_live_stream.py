"""GET /live/stream: events in order at the asked rate, a bounded number of streams, an orderly end."""

from __future__ import annotations

import contextlib
import itertools
import json
import signal
import threading
import time
from collections.abc import Iterator

import httpx
import pytest

from patience import HANG_S, noise_aside

pytestmark = pytest.mark.engine

MAX_STREAMS = 8


@pytest.fixture(scope="module")
def server(start_server):
    with start_server("-c", "1024", "-np", "1") as running:
        yield running


@contextlib.contextmanager
def events_of(url: str, hz: int) -> Iterator[Iterator[dict]]:
    """The events of one stream, as they come."""
    with httpx.stream("GET", f"{url}/live/stream?hz={hz}", timeout=60, trust_env=False) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        yield (json.loads(line[6:]) for line in response.iter_lines() if line.startswith("data: "))


def read_events(url: str, count: int, hz: int) -> list[dict]:
    with events_of(url, hz) as stream:
        return list(itertools.islice(stream, count))


def open_once_free(url: str, stack: contextlib.ExitStack) -> None:
    """Open a stream; a client that left before keeps its place until the next event cannot be sent to it."""
    end = time.monotonic() + HANG_S
    while time.monotonic() < end:
        with contextlib.ExitStack() as attempt:
            stream = httpx.stream("GET", url + "/live/stream?hz=1", timeout=60, trust_env=False)
            if attempt.enter_context(stream).status_code == 200:
                stack.push(attempt.pop_all())
                return
        time.sleep(0.1)
    pytest.fail("no place became free")


def test_events_come_in_order_while_the_engine_works(server):
    asking = threading.Thread(target=server.complete, kwargs={"n_predict": 120, "ignore_eos": True})
    with events_of(server.url, hz=10) as stream:
        events = [next(stream)]
        asking.start()
        while len(events) < 12 or events[-1]["published"] == events[0]["published"]:
            events.append(next(stream))
    asking.join()
    numbers = [event["seq"] for event in events]
    assert numbers == sorted(set(numbers))
    published = [event["published"] for event in events]
    assert published == sorted(published)


@pytest.mark.parametrize(("hz", "count"), [(20, 21), (2, 3)])
def test_the_rate_is_the_one_asked_for(server, hz, count):
    mean_s = []

    def compare_rate() -> None:
        times_s = [event["now_ns"] / 1e9 for event in read_events(server.url, count, hz)]
        gaps_s = [b - a for a, b in itertools.pairwise(times_s)]
        mean_s.append(sum(gaps_s) / len(gaps_s))
        assert sorted(gaps_s)[len(gaps_s) // 2] < 1.5 / hz

    noise_aside(compare_rate)
    # A pause before the first look shortens one gap.
    assert min(mean_s) >= 0.85 / hz


def test_an_idle_engine_is_streamed_on_and_stays_idle(server):
    events = read_events(server.url, 5, hz=20)
    assert len({event["published"] for event in events}) == 1
    assert len({event["seq"] for event in events}) == 5


@pytest.mark.parametrize("hz", ["0", "21", "-1", "4.5", "fast", "99999999999", ""])
def test_another_rate_is_refused_with_a_sentence(server, hz):
    answer = server.http.get("/live/stream", params={"hz": hz})
    assert answer.status_code == 400
    assert "'hz' must be a whole number" in answer.json()["error"]["message"]


def test_streams_are_bounded_and_a_place_is_free_again_when_a_client_leaves(server):
    with contextlib.ExitStack() as stack:
        for _ in range(MAX_STREAMS):
            open_once_free(server.url, stack)
        refused = server.http.get("/live/stream")
        assert refused.status_code == 503
        assert "live streams are in use" in refused.json()["error"]["message"]
        assert server.http.get("/live").status_code == 200
        assert server.complete(n_predict=2)["tokens_predicted"] == 2
    with contextlib.ExitStack() as stack:
        open_once_free(server.url, stack)


def test_a_stop_ends_open_streams_in_order_and_quickly(start_server):
    with start_server("-c", "512", "-np", "1") as server:
        lines: list[str] = []
        is_open = threading.Event()

        def read() -> None:
            with httpx.stream("GET", server.url + "/live/stream?hz=1", timeout=60, trust_env=False) as response:
                for line in response.iter_lines():
                    lines.append(line)
                    is_open.set()

        reading = threading.Thread(target=read)
        reading.start()
        assert is_open.wait(HANG_S)
        begun = time.monotonic()
        server.process.send_signal(signal.SIGINT)
        server.process.wait(HANG_S)
        took_s = time.monotonic() - begun
        reading.join(HANG_S)
    assert took_s < 30
    assert "event: end" in lines
