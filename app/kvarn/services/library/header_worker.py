"""The child that reads headers: many files, one after another, in bounded memory.

A file it dies on costs that file a sentence, never the console. Frames on stdin and stdout are a
4-byte little-endian length and a body: a path in the file system's bytes, answered by a `HeaderReading`
in msgpack. End of stdin ends it, so it cannot outlive its parent.
"""

from __future__ import annotations

import os
import signal
import stat
import struct
import sys
from typing import BinaryIO

import msgspec

from kvarn.domain.library.header_reading import HeaderReading, refused
from kvarn.services.library.gguf_reader import read_gguf

MEMORY_LIMIT_BYTES = 1 << 30
"""Address space of the whole child; the worst legal header needs about half."""
_LENGTH = struct.Struct("<I")


def read_file(path: bytes) -> HeaderReading:
    """The reading of one path; only a regular file is ever read, and opening never waits."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        with os.fdopen(os.open(os.fsdecode(path), flags), "rb", buffering=0) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                return refused("not-a-file", "This is not a regular file.")
            return read_gguf(file, found.st_size)
    except MemoryError:
        return refused("damaged", "The header needs more memory than any model's would. Download the file again.")
    except OSError as error:
        return refused("unreadable", f"The file cannot be read: {error.strerror or 'unknown error'}.")


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer until the requests end."""
    while head := requests.read(_LENGTH.size):
        answer = msgspec.msgpack.encode(read_file(requests.read(_LENGTH.unpack(head)[0])))
        answers.write(_LENGTH.pack(len(answer)) + answer)
        answers.flush()


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:  # Windows: the deadline and the reader's own limits remain
        return
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT_BYTES, MEMORY_LIMIT_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then ends us
    _limit_memory()
    serve(sys.stdin.buffer, sys.stdout.buffer)
