from __future__ import annotations

import os
import threading

import pytest

from kvarn.services.launch import line_pump
from kvarn.services.launch.line_pump import LinePump
from patience import HANG_S


def pump(content: bytes, on_lines, when_read=lambda: None) -> LinePump:
    """Feed a pipe from a thread, as a child would; `when_read` is called once all of it has been read."""
    read_end, write_end = os.pipe()

    def feed() -> None:
        with os.fdopen(write_end, "wb") as out:
            out.write(content)

    feeder = threading.Thread(target=feed)
    feeder.start()
    lines = LinePump(read_end, on_lines)
    feeder.join(HANG_S)
    lines.await_end_of_output(HANG_S)
    assert not feeder.is_alive()
    when_read()
    lines.close(HANG_S)
    os.close(read_end)
    return lines


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"one\ntwo\n", ["one", "two"]),
        (b"no end", ["no end"]),
        (b"windows\r\n\n", ["windows", ""]),
        ("größe 模型\n".encode(), ["größe 模型"]),
        (b"\xff\xfe\n", ["\ufffd\ufffd"]),
    ],
)
def test_bytes_become_lines(content: bytes, lines: list[str]) -> None:
    got: list[str] = []
    assert pump(content, got.extend).words() == tuple(lines)
    assert got == lines


def test_a_line_without_end_is_cut_and_what_follows_is_read(caplog) -> None:
    got: list[str] = []
    pump(b"x" * 3_000_000 + b"\nnext\n", got.extend)
    assert len(got[0]) < line_pump.LINE_BYTES + 10
    assert got[0].endswith("[…]")
    assert got[1] == "next"


def test_a_slow_reader_never_holds_the_writer_up_and_learns_what_it_missed(monkeypatch) -> None:
    monkeypatch.setattr(line_pump, "PENDING_CHARACTERS", 10_000)
    may_go_on = threading.Event()
    got: list[str] = []

    def slow(batch: list[str]) -> None:
        may_go_on.wait(HANG_S)
        got.extend(batch)

    def go_on() -> None:
        assert got == [], "the reader was waited for"
        may_go_on.set()

    lines = pump(b"a line of the log\n" * 100_000, slow, go_on)
    notes = [line for line in got if "left out" in line]
    assert notes
    assert lines.dropped + len(got) - len(notes) == 100_000


def test_empty_lines_count_against_the_limit_too(monkeypatch) -> None:
    monkeypatch.setattr(line_pump, "PENDING_CHARACTERS", 10_000)
    may_go_on = threading.Event()
    lines = pump(b"\n" * 100_000, lambda _batch: may_go_on.wait(HANG_S), may_go_on.set)
    assert lines.dropped > 50_000


def test_a_reader_that_fails_gets_the_later_lines_all_the_same(caplog) -> None:
    seen: list[int] = []

    def broken(batch: list[str]) -> None:
        seen.append(len(batch))
        raise RuntimeError("no")

    pump(b"a\n" * 1200, broken)
    assert sum(seen) == 1200
    for record in caplog.records:
        record.expected = True
