"""The parent's side of the header worker: one path in, one reading out, whatever happens to the child."""

from __future__ import annotations

import contextlib
import os
import stat
import struct
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType

import msgspec

import kvarn
from kvarn.domain.library.header_reading import HeaderReading, refused

DEADLINE_S = 10.0
"""For one file. A header takes milliseconds; this is for a disk that has gone away."""
_LENGTH = struct.Struct("<I")


class HeaderReader:
    """Reads headers through a child that is started when first needed and again after a crash.

    One thread reads; `interrupt` may be called from any other.
    """

    def __init__(self, deadline_s: float = DEADLINE_S) -> None:
        self._deadline_s = deadline_s
        self._child: subprocess.Popen[bytes] | None = None
        self._timed_out = False
        self._interrupted = threading.Event()

    def __enter__(self) -> HeaderReader:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def read(self, path: Path) -> HeaderReading:
        """What the file's header says; every failure is a reading with a problem."""
        if problem := unreadable(path):
            return problem
        self._timed_out = False
        try:
            answer = self._ask(os.fsencode(path))
            return msgspec.msgpack.decode(answer, type=HeaderReading)
        except (OSError, EOFError, msgspec.DecodeError):
            self.close()
            return self._lost()

    def interrupt(self) -> None:
        """End a read in progress; it returns at once."""
        self._interrupted.set()
        self._kill()

    def close(self) -> None:
        """End the child."""
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        child.wait()
        for pipe in (child.stdin, child.stdout):
            with contextlib.suppress(OSError):  # bytes left in the buffer for a dead child
                if pipe:
                    pipe.close()

    def _ask(self, path: bytes) -> bytes:
        child = self._running_child()
        assert child.stdin
        assert child.stdout
        watchdog = threading.Timer(self._deadline_s, self._expire)
        watchdog.start()
        try:
            child.stdin.write(_LENGTH.pack(len(path)) + path)
            child.stdin.flush()
            head = child.stdout.read(_LENGTH.size)
            if len(head) < _LENGTH.size:
                raise EOFError
            return child.stdout.read(_LENGTH.unpack(head)[0])
        finally:
            watchdog.cancel()
            watchdog.join()  # so that it cannot end the child during the next file

    def _running_child(self) -> subprocess.Popen[bytes]:
        if self._interrupted.is_set():
            raise EOFError
        if self._child is None:
            # Found like this very package, wherever that is; -P keeps the working folder off the path.
            source = str(Path(kvarn.__file__).parent.parent)
            self._child = subprocess.Popen(
                [sys.executable, "-P", "-m", "kvarn.services.library.header_worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH"))))},
            )
            if self._interrupted.is_set():  # between the question above and the start
                self._kill()
        return self._child

    def _expire(self) -> None:
        self._timed_out = True
        self._kill()

    def _kill(self) -> None:
        if child := self._child:
            child.kill()

    def _lost(self) -> HeaderReading:
        if self._timed_out:
            return refused("too-slow", f"Reading the file's header took longer than {self._deadline_s:g} s.")
        if self._interrupted.is_set():
            return refused("interrupted", "Reading was cancelled.")
        return refused("reader-crashed", "Reading the file's header failed; the file is probably damaged.")


def unreadable(path: Path) -> HeaderReading | None:
    """Why a path is no regular file we may read, found without opening it; None when it is one."""
    try:
        found = path.stat()
    except OSError as error:
        if path.is_symlink():
            return refused("broken-link", "This is a link that leads nowhere.")
        return refused("unreadable", f"The file cannot be read: {error.strerror or 'unknown error'}.")
    except ValueError:  # a NUL in a typed path
        return refused("unreadable", "This path cannot exist.")
    if stat.S_ISREG(found.st_mode):
        return None
    kinds = {stat.S_IFDIR: "folder", stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket"}
    kind = kinds.get(stat.S_IFMT(found.st_mode), "device")
    return refused("not-a-file", f"This is a {kind}, not a model file.")


TRANSIENT = frozenset({"unreadable", "too-slow", "interrupted", "reader-crashed", "broken-link", "not-a-file"})
"""Codes that may be gone at the next look, so the cache must not keep them."""
