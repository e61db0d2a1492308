"""Engines that outlived their console: noted while they run, ended at the next start. Only ever our own."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import msgspec
import psutil

from kvarn.services import paths
from kvarn.services.atomic_file import write_atomic

_START_TOLERANCE_S = 0.05
_GRACE_S = 1.0


class EngineNote(msgspec.Struct, frozen=True):
    """A process is the same one only if id AND start time agree: ids are used again."""

    pid: int
    started: float
    """As the system tells it, seconds since the epoch; compared for identity, never subtracted."""
    console_pid: int
    console_started: float
    port: int


def note_engine(pid: int, port: int) -> Path | None:
    """Write down that this console runs that engine; None when it is gone already."""
    try:
        started = psutil.Process(pid).create_time()
        note = EngineNote(pid, started, os.getpid(), psutil.Process().create_time(), port)
    except psutil.Error:
        return None
    path = _folder() / f"engine-{pid}.json"
    write_atomic(path, msgspec.json.encode(note), private=True)
    return path


def end_leftovers() -> tuple[EngineNote, ...]:
    """End engines whose console is gone; returns those that were still running. Other engines are not touched."""
    ended = []
    for path in sorted(_folder().glob("engine-*.json")):
        note = _read(path)
        if note and _process(note.console_pid, note.console_started):
            continue
        process = _process(note.pid, note.started) if note else None
        if note and process:
            _end(process)
            ended.append(note)
        path.unlink(missing_ok=True)
    return tuple(ended)


def running_engines() -> tuple[EngineNote, ...]:
    """Engines of ours that run now, of this console or another."""
    notes = (_read(path) for path in sorted(_folder().glob("engine-*.json")))
    return tuple(note for note in notes if note and _process(note.pid, note.started))


def engine_text(note: EngineNote) -> str:
    """`a Kvarn engine (process 7), launched by kvarn serve (process 5)`; by whom only while that one lives."""
    engine = f"a Kvarn engine (process {note.pid})"
    console = _process(note.console_pid, note.console_started)
    if console is None:
        return engine
    try:
        program = "kvarn serve" if "serve" in console.cmdline() else "the Kvarn console"
    except psutil.Error:
        return engine
    return f"{engine}, launched by {program} (process {note.console_pid})"


def _folder() -> Path:
    return paths.state_dir() / "engines"


def _read(path: Path) -> EngineNote | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=EngineNote)
    except (OSError, msgspec.DecodeError, RecursionError):
        return None


def _process(pid: int, started: float) -> psutil.Process | None:
    try:
        process = psutil.Process(pid)
        same = abs(process.create_time() - started) < _START_TOLERANCE_S
        return process if same and process.status() != psutil.STATUS_ZOMBIE else None
    except psutil.Error:
        return None


def _end(process: psutil.Process) -> None:
    family = [process]
    with contextlib.suppress(psutil.Error):
        family += process.children(recursive=True)
    for member in family:
        with contextlib.suppress(psutil.Error):
            member.terminate()
    for member in psutil.wait_procs(family, timeout=_GRACE_S)[1]:
        with contextlib.suppress(psutil.Error):
            member.kill()
