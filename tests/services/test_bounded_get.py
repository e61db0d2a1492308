"""Whoever answers at the engine's address: one look costs bounded memory and bounded time."""

from __future__ import annotations

import contextlib
import gzip
import socket
import threading
import time
from collections.abc import Callable, Iterator

import httpx
import pytest

from kvarn.services import bounded_get as module
from kvarn.services.bounded_get import MOST_BYTES, bounded_get
from kvarn.services.clock import SystemClock
from kvarn.services.live.engine_feed import FeedTrouble
from kvarn.services.live.polling_feed import PollingFeed

Answering = Callable[[socket.socket], None]


@pytest.fixture
def answer_with() -> Iterator[Callable[[Answering], str]]:
    """A server that lets `answering` write whatever it likes to each caller; gives its address."""
    server = socket.create_server(("127.0.0.1", 0))
    threads: list[threading.Thread] = []

    def start(answering: Answering) -> str:
        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    caller, _ = server.accept()
                    with caller, contextlib.suppress(OSError):
                        caller.recv(65536)
                        answering(caller)

        threads.append(threading.Thread(target=serve))
        threads[-1].start()
        return f"http://127.0.0.1:{server.getsockname()[1]}"

    yield start
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    for thread in threads:
        thread.join()


def endless(caller: socket.socket) -> None:
    caller.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        caller.sendall(b"x" * 65536)


def dripping(caller: socket.socket) -> None:
    caller.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        caller.sendall(b"x")
        time.sleep(0.02)


def packed(caller: socket.socket) -> None:
    body = gzip.compress(b"0" * (4 * MOST_BYTES))
    caller.sendall(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body) + body)


def in_no_charset(caller: socket.socket) -> None:
    body = b"llamacpp:prompt_tokens_total \xff\xfe\n"
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=hex\r\nContent-Length: %d\r\n\r\n"
    caller.sendall(head % len(body) + body)


def test_a_body_without_end_is_left(answer_with, monkeypatch) -> None:
    monkeypatch.setattr(module, "MOST_S", 60.0)
    with httpx.Client(base_url=answer_with(endless), trust_env=False) as http, pytest.raises(httpx.DecodingError):
        bounded_get(http, "/metrics")


def test_a_body_in_drops_is_left(answer_with, monkeypatch) -> None:
    monkeypatch.setattr(module, "MOST_S", 0.2)
    with httpx.Client(base_url=answer_with(dripping), trust_env=False) as http, pytest.raises(httpx.ReadTimeout):
        bounded_get(http, "/metrics")


def test_a_packed_body_is_not_unpacked(answer_with) -> None:
    with httpx.Client(base_url=answer_with(packed), trust_env=False) as http:
        assert len(bounded_get(http, "/metrics").content) < 1 << 20


@pytest.mark.parametrize("answering", [endless, packed, in_no_charset])
def test_telemetry_goes_on_after_any_answer(answer_with, answering) -> None:
    feed = PollingFeed(answer_with(answering), None, SystemClock())
    frame = feed.next_frame()
    feed.close()
    assert isinstance(frame, FeedTrouble) or frame.slots is None
