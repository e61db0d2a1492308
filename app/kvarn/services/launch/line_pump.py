"""Reads a child's output without ever making it wait: bounded memory, what does not fit is dropped and counted."""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable

log = logging.getLogger(__name__)

LINE_BYTES = 8192
"""Longer lines are cut."""
PENDING_CHARACTERS = 8 << 20
BATCH_LINES = 500
WORDS_KEPT = 200
_CHUNK_BYTES = 1 << 16


class LinePump:
    """Two threads: one empties the pipe, the other hands batches of lines to `on_lines`.

    `on_lines` may be slow: the pipe is emptied all the same and the oldest pending lines give way.
    """

    def __init__(self, descriptor: int, on_lines: Callable[[list[str]], None]) -> None:
        self._descriptor = descriptor
        self._on_lines = on_lines
        self._pending: deque[str] = deque()
        self._pending_characters = 0
        self._words: deque[str] = deque(maxlen=WORDS_KEPT)
        self._changed = threading.Condition()
        self._ended = False
        self.dropped = 0
        self.bytes_read = 0
        """Grows with every sign of life."""
        self._reader = threading.Thread(target=self._read, name="engine-log-read", daemon=True)
        self._deliverer = threading.Thread(target=self._hand_over, name="engine-log-deliver", daemon=True)
        self._reader.start()
        self._deliverer.start()

    def words(self) -> tuple[str, ...]:
        """The newest lines, at most WORDS_KEPT."""
        with self._changed:
            return tuple(self._words)

    def forget_words(self) -> None:
        """Start afresh: what went wrong before this moment was overcome."""
        with self._changed:
            self._words.clear()

    def await_end_of_output(self, timeout_s: float) -> None:
        """Wait until the last line is among `words`; it may not be delivered yet."""
        self._reader.join(timeout_s)

    def close(self, patience_s: float) -> None:
        """Let the delivery come to its end; what a slow reader has not taken by then is dropped."""
        self._deliverer.join(patience_s)
        with self._changed:
            self.dropped += len(self._pending)
            self._pending.clear()
            self._ended = True
            self._changed.notify()
        self._deliverer.join(patience_s)

    def _read(self) -> None:
        rest = b""
        while chunk := self._chunk():
            self.bytes_read += len(chunk)
            *lines, rest = (rest + chunk).split(b"\n")
            rest = rest[: LINE_BYTES + 1]
            self._add([_text(line) for line in lines])
        if rest:
            self._add([_text(rest)])
        with self._changed:
            self._ended = True
            self._changed.notify()

    def _chunk(self) -> bytes:
        try:
            return os.read(self._descriptor, _CHUNK_BYTES)
        except OSError:
            return b""

    def _add(self, lines: list[str]) -> None:
        with self._changed:
            self._words.extend(lines)
            self._pending.extend(lines)
            self._pending_characters += _weight(lines)
            while self._pending_characters > PENDING_CHARACTERS:
                self._pending_characters -= _weight([self._pending.popleft()])
                self.dropped += 1
            self._changed.notify()

    def _hand_over(self) -> None:
        told = 0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._pending or self._ended)
                batch = [self._pending.popleft() for _ in range(min(len(self._pending), BATCH_LINES))]
                self._pending_characters -= _weight(batch)
                done, dropped = self._ended and not batch, self.dropped
            if dropped > told:
                batch.insert(0, f"[{dropped - told} lines came too fast and were left out]")
                told = dropped
            if batch:
                self._deliver(batch)
            if done:
                return

    def _deliver(self, batch: list[str]) -> None:
        try:
            self._on_lines(batch)
        except Exception:
            log.exception("a reader of the engine's log failed")


def _weight(lines: list[str]) -> int:
    """Characters with the line ends: a flood of empty lines takes memory too."""
    return sum(map(len, lines)) + len(lines)


def _text(line: bytes) -> str:
    cut = line[:LINE_BYTES]
    text = cut.decode("utf-8", "replace").rstrip("\r")
    return text + " […]" if len(line) > LINE_BYTES else text
