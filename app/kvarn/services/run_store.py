"""Measured runs in one SQLite file of the data folder. Each figure is on disk before the next is measured.

A run is what was asked (`setup`) and what was found so far (`samples`, by the step they belong to), both as JSON
that only their capability understands.
"""

from __future__ import annotations

import contextlib
import errno
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from kvarn.domain.errors import ResultError
from kvarn.services import paths

_FORMAT = 1
_TABLES = """
CREATE TABLE IF NOT EXISTS runs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL, digest TEXT NOT NULL, title TEXT NOT NULL, started TEXT NOT NULL, setup BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS samples (
    run INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
    key TEXT NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (run, key)
) WITHOUT ROWID;
"""
_WAIT_S = 10.0
_MOVE = "Move the file away to begin a new one."
_IN_USE = "Another program holds them; try again when it is done."
_CLOSED = "Make the file and its folder writable, or name another folder in KVARN_HOME."
_CURES = {
    "SQLITE_BUSY": _IN_USE,
    "SQLITE_LOCKED": _IN_USE,
    "SQLITE_FULL": "Free some disk space.",
    "SQLITE_READONLY": _CLOSED,
    "SQLITE_CANTOPEN": _CLOSED,
    "SQLITE_CORRUPT": _MOVE,
    "SQLITE_NOTADB": _MOVE,
    "SQLITE_ERROR": _MOVE,
}
"""By how SQLite's name of the error begins. `SQLITE_ERROR`: its tables are not those we made."""


class StoredRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run as it is listed."""

    id: int
    kind: str
    digest: str
    """Equal for runs whose figures may be put together."""
    title: str
    started: str
    """ISO 8601, UTC."""
    setup: bytes


class RunStore:
    """All stored runs. Every method raises ResultError when the file cannot be read or written."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or paths.data_dir() / "results.sqlite"

    def add_run(self, *, kind: str, digest: str, title: str, setup: bytes) -> StoredRun:
        """Begin a run."""
        started = datetime.now(UTC).isoformat(timespec="seconds")
        values = (kind, digest, title, started, setup)
        with self._database() as database:
            sql = "INSERT INTO runs (kind, digest, title, started, setup) VALUES (?, ?, ?, ?, ?)"
            number = database.execute(sql, values).lastrowid
        assert number is not None
        return StoredRun(id=number, kind=kind, digest=digest, title=title, started=started, setup=setup)

    def runs(self) -> tuple[StoredRun, ...]:
        """Oldest first."""
        with self._database() as database:
            rows = database.execute("SELECT id, kind, digest, title, started, setup FROM runs ORDER BY id").fetchall()
        names = StoredRun.__struct_fields__
        return tuple(StoredRun(**dict(zip(names, row, strict=True))) for row in rows)

    def run(self, number: int) -> StoredRun | None:
        """The run of that number."""
        return next((run for run in self.runs() if run.id == number), None)

    def samples(self, number: int) -> tuple[bytes, ...]:
        """What a run has found so far, in the order of the steps' names."""
        with self._database() as database:
            rows = database.execute("SELECT body FROM samples WHERE run = ? ORDER BY key", (number,)).fetchall()
        return tuple(body for (body,) in rows)

    def keep(self, number: int, key: str, body: bytes) -> None:
        """Put one sample in its place; on disk when this returns."""
        with self._database() as database:
            database.execute("INSERT OR REPLACE INTO samples (run, key, body) VALUES (?, ?, ?)", (number, key, body))

    def forget(self, number: int, key: str) -> None:
        """Take one sample away; its step is open again."""
        with self._database() as database:
            database.execute("DELETE FROM samples WHERE run = ? AND key = ?", (number, key))

    def delete(self, number: int) -> bool:
        """Take a run with its samples away; False when there was none."""
        with self._database() as database:
            return database.execute("DELETE FROM runs WHERE id = ?", (number,)).rowcount > 0

    @contextlib.contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        """One connection, one transaction: kept when the block ends well, undone when it does not."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.closing(sqlite3.connect(self.path, timeout=_WAIT_S)) as database, database:
                database.execute("PRAGMA foreign_keys = ON")
                self._prepare(database)
                yield database
        except sqlite3.IntegrityError as error:
            raise ResultError("This run was deleted while it was being measured.") from error
        except (sqlite3.Error, OSError) as error:
            reason = error.strerror or error if isinstance(error, OSError) else error
            raise ResultError(f"The results in {self.path} cannot be used: {reason}. {_cure(error)}") from error

    def _prepare(self, database: sqlite3.Connection) -> None:
        (found,) = database.execute("PRAGMA user_version").fetchone()
        if found > _FORMAT:
            raise ResultError(f"The results in {self.path} were written by a newer Kvarn.")
        if found < _FORMAT:
            # One transaction with the number: a plug pulled in between leaves an empty file, not half a schema.
            database.executescript(f"BEGIN IMMEDIATE; {_TABLES} PRAGMA user_version = {_FORMAT}; COMMIT;")


def _cure(error: sqlite3.Error | OSError) -> str:
    """What the reader can do about it. Only a file that is broken is to be moved away."""
    if isinstance(error, OSError):
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        return _CURES["SQLITE_FULL" if is_full else "SQLITE_CANTOPEN"]
    name = getattr(error, "sqlite_errorname", "SQLITE_ERROR")
    return next((cure for start, cure in _CURES.items() if name.startswith(start)), "Check the disk and try again.")
