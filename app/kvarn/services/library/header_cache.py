"""Readings kept between scans: a file whose size and time have not changed is not opened again."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import msgspec

from kvarn.domain.library.header_reading import HeaderReading
from kvarn.services import paths
from kvarn.services.atomic_file import write_atomic
from kvarn.services.library.header_reader import TRANSIENT

_FORMAT = 1
"""Raise it whenever facts are read differently; an older file is then ignored."""
_MAX_FILES = 8192
_MAX_FILE_BYTES = 64 << 20


class _Kept(msgspec.Struct, frozen=True):
    size: int
    mtime_ns: int
    reading: HeaderReading


class _CacheFile(msgspec.Struct, frozen=True):
    format: int
    files: dict[bytes, _Kept]
    """By path in the file system's own bytes; the most recently seen last."""


class HeaderCache:
    """Path, size and modification time -> reading. Used by one thread; a damaged file counts as empty."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path or paths.cache_dir() / "headers.msgpack"
        self._files = self._load()
        self._changed = False

    def get(self, path: Path, found: os.stat_result) -> HeaderReading | None:
        """The reading of an unchanged file."""
        key = os.fsencode(path)
        kept = self._files.pop(key, None)
        if kept is None or (kept.size, kept.mtime_ns) != (found.st_size, found.st_mtime_ns):
            return None
        self._files[key] = kept
        return kept.reading

    def put(self, path: Path, found: os.stat_result, reading: HeaderReading) -> None:
        """Keep a reading unless the next look might give another."""
        if reading.problem is None or reading.problem.code not in TRANSIENT:
            self._files[os.fsencode(path)] = _Kept(found.st_size, found.st_mtime_ns, reading)
            self._changed = True

    def save(self) -> None:
        """Write the cache if it changed. It can be made again, so a failure is no trouble."""
        if not self._changed:
            return
        recent = dict(list(self._files.items())[-_MAX_FILES:])
        with contextlib.suppress(OSError):
            write_atomic(self._path, msgspec.msgpack.encode(_CacheFile(_FORMAT, recent)))
            self._changed = False

    def _load(self) -> dict[bytes, _Kept]:
        try:
            if self._path.stat().st_size > _MAX_FILE_BYTES:
                return {}
            kept = msgspec.msgpack.decode(self._path.read_bytes(), type=_CacheFile)
        except (OSError, msgspec.MsgspecError, ValueError):
            return {}
        return kept.files if kept.format == _FORMAT else {}
