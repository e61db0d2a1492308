"""Short lists of results in the data folder, newest last: what several small stores have in common."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from kvarn.services.atomic_file import write_atomic

T = TypeVar("T", bound=msgspec.Struct)


class ResultList(Generic[T]):
    """At most `keep` results of one kind in one JSON file. A damaged file is set aside, not trusted."""

    def __init__(self, path: Path, kind: type[T], keep: int) -> None:
        self._path = path
        self._keep = keep
        self._decoder = msgspec.json.Decoder(list[kind])  # type: ignore[valid-type]
        self._lock = threading.Lock()

    def load(self) -> tuple[T, ...]:
        """All stored results, none when there is no file or it cannot be understood."""
        try:
            return tuple(self._decoder.decode(self._path.read_bytes()))
        except FileNotFoundError:
            return ()
        except (OSError, msgspec.DecodeError):
            self._set_aside()
            return ()

    def add(self, result: T) -> None:
        """Append one result. Raises OSError when the folder cannot be written."""
        with self._lock:
            results = [*self.load(), result][-self._keep :]
            write_atomic(self._path, msgspec.json.format(msgspec.json.encode(results), indent=1))

    def _set_aside(self) -> None:
        try:
            self._path.replace(self._path.with_suffix(".damaged"))
        except OSError:
            return
