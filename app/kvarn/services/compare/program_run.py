"""Runs one engine program to its end, line by line, and ends it when nobody wants its answer any more."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import TypeVar

import msgspec

from kvarn.domain.errors import EngineCallError
from kvarn.domain.launch.command_line import EngineCommand
from kvarn.services.launch.child_process import ChildProcess

T = TypeVar("T")
_LAST_WORDS = 15
_LOOK_S = 0.1
_PATIENCE_S = 5.0


class Cancelled(Exception):
    """Whoever asked does not want the answer any more."""


def run_program(
    command: EngineCommand, what: str, on_line: Callable[[str], None], cancelled: Callable[[], bool]
) -> None:
    """Hand every line of its output to `on_line`, in the calling thread, until it has ended.

    Raises EngineCallError with its last words when it fails, Cancelled once it is ended for that reason.
    The child dies with the calling thread, which waits here for its answer.
    """
    lines: queue.SimpleQueue[list[str]] = queue.SimpleQueue()
    ended = threading.Event()
    try:
        child = ChildProcess(command, on_lines=lines.put, on_exit=lambda _child: ended.set())
    except OSError as error:
        raise EngineCallError(f"{what} could not be started: {error.strerror or error}.") from error
    try:
        while not ended.is_set():
            if cancelled():
                raise Cancelled
            _hand_over(lines, on_line, _LOOK_S)
    finally:
        child.end_by_force()
        child.close(_PATIENCE_S)
    _hand_over(lines, on_line, 0)
    if child.exit_code != 0:
        end = child.signal or f"exit code {child.exit_code}"
        killed = " The kernel ended it because memory ran out." if child.kernel_killed else ""
        raise EngineCallError(f"{what} failed ({end}).{killed}", "\n".join(child.lines.words()[-_LAST_WORDS:]))


def _hand_over(lines: queue.SimpleQueue[list[str]], on_line: Callable[[str], None], wait_s: float) -> None:
    """All that has come; the first may take `wait_s` to come."""
    while True:
        try:
            batch = lines.get(timeout=wait_s) if wait_s else lines.get_nowait()
        except queue.Empty:
            return
        wait_s = 0
        for line in batch:
            on_line(line)


def decoded(told: str, decoder: msgspec.json.Decoder[T], what: str) -> T:
    """One line of a program's answer. Raises EngineCallError when it is not what was agreed."""
    try:
        return decoder.decode(told)
    except msgspec.DecodeError as error:
        raise EngineCallError(f"{what} gave an answer that cannot be read ({error}).", told[:200]) from error
