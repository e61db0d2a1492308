"""What the engine and we ourselves say: the newest lines in memory, all of them in a file that is kept small."""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from collections import deque
from collections.abc import Callable
from io import TextIOWrapper
from itertools import islice
from pathlib import Path

from kvarn.domain.live.log_line import LogLevel, LogLine, level_of, printable
from kvarn.services import paths
from kvarn.services.clock import Clock, SystemClock

LINES_KEPT = 20_000
LONGEST_LINE = 4_000
FILE_BYTES = 16 << 20
OLD_FILES = 3
FLUSH_S = 0.25
"""In a burst the file is written in blocks; a line that stands alone reaches the disk at once."""

HIDDEN = "••••"


class LogStore:
    """A bounded ring over a rotating file. Any thread appends; the screen asks `since` in batches.

    Secrets named with `hide` never reach the ring or the file. A file that cannot be written costs the file, not
    the lines: `file_problem` then says why.
    """

    def __init__(
        self,
        path: Path | None = None,
        *,
        clock: Clock | None = None,
        wall: Callable[[], float] = time.time,
        lines_kept: int = LINES_KEPT,
    ) -> None:
        self.path = path or paths.state_dir() / "logs" / "kvarn.log"
        self.file_problem = ""
        self._clock, self._wall = clock or SystemClock(), wall
        self._lock = threading.Lock()
        self._ring: deque[LogLine] = deque(maxlen=lines_kept)
        self._seq = 0
        self._secrets: tuple[str, ...] = ()
        self._file: TextIOWrapper | None = None
        self._file_bytes = 0
        self._flushed_s = float("-inf")
        self._is_dirty = False

    @property
    def revision(self) -> int:
        """The number of the newest line; 0 before the first."""
        return self._seq

    def hide(self, secret: str) -> None:
        """From now on show dots in its place."""
        with self._lock:
            if secret and secret not in self._secrets:
                self._secrets = (*self._secrets, secret)

    def append(self, source: str, text: str, level: LogLevel | None = None) -> None:
        """Add one line, judged by its words where no level is given. A few microseconds.

        Longer lines are cut with a note of how much is missing.
        """
        text = _tidy(text)
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        level = level or level_of(text)
        with self._lock:
            self._seq += 1
            line = LogLine(self._seq, self._wall(), source, level, text)
            self._ring.append(line)
            self._write(line)

    def since(self, seq: int, limit: int = 1000) -> tuple[tuple[LogLine, ...], int]:
        """At most `limit` lines after number `seq`, oldest first, and how many before them are no longer held."""
        with self._lock:
            self._flush(self._clock.now())
            oldest = self._seq - len(self._ring) + 1
            start = max(seq + 1, oldest)
            lines = tuple(islice(self._ring, start - oldest, start - oldest + limit))
            return lines, start - seq - 1

    def last(self, limit: int) -> tuple[LogLine, ...]:
        """The newest lines, oldest first."""
        return self.since(self._seq - limit, limit)[0]

    def flush(self) -> None:
        """Bring everything to the file."""
        with self._lock:
            self._flush(self._clock.now())

    def close(self) -> None:
        """Finish the file; lines appended later stay in memory only."""
        with self._lock:
            self._flush(self._clock.now())
            if self._file is not None:
                self._file.close()
            self._file, self.file_problem = None, "the log is closed"

    def _write(self, line: LogLine) -> None:
        if self.file_problem:
            return
        try:
            if self._file is None or self._file_bytes > FILE_BYTES:
                self._next_file()
            assert self._file is not None
            self._file_bytes += self._file.write(f"{_stamp(line.wall_s)} {line.source} {line.level} {line.text}\n")
            self._is_dirty = True
            now_s = self._clock.now()
            if now_s - self._flushed_s >= FLUSH_S:
                self._flush(now_s)
        except OSError as error:
            self._give_up(error)

    def _flush(self, now_s: float) -> None:
        if self._file is None or not self._is_dirty:
            return
        try:
            self._file.flush()
            self._flushed_s, self._is_dirty = now_s, False
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        """On with the lines in memory; what the file has not taken by now it never will."""
        self.file_problem = f"the log file {self.path} cannot be written: {error.strerror or error}"
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):
                file.close()

    def _next_file(self) -> None:
        """Start an empty file; the old ones become .1, .2, .3 and the oldest goes."""
        if self._file is not None:
            self._file.close()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        for number in range(OLD_FILES, 0, -1):
            older = self.path if number == 1 else self._numbered(number - 1)
            if older.exists():
                older.replace(self._numbered(number))
        self._file = self.path.open("w", encoding="utf-8", errors="replace", buffering=1 << 16)
        self._file_bytes = 0

    def _numbered(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")


def _stamp(wall_s: float) -> str:
    """`2026-03-01 14:02:31.250`, local time."""
    return f"{_second(int(wall_s))}.{int(wall_s % 1 * 1000):03d}"


@functools.lru_cache(maxsize=4)
def _second(wall_s: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(wall_s))


def _tidy(text: str) -> str:
    text = text.rstrip("\r\n")
    if len(text) > LONGEST_LINE:
        text = f"{text[:LONGEST_LINE]} … ({len(text) - LONGEST_LINE} more characters)"
    return printable(text)


__all__ = ["LogLevel", "LogLine", "LogStore"]
