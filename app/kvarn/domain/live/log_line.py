"""One line of the log and how loud it is."""

from __future__ import annotations

import re
from enum import StrEnum

import msgspec


class LogLevel(StrEnum):
    """How loud a line is."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogLine(msgspec.Struct, frozen=True):
    """One line as shown: `seq` counts from 1 without holes, `source` is `engine` or `kvarn`."""

    seq: int
    wall_s: float
    """Unix time, to be shown only: a monotonic one stands still while the machine sleeps."""
    source: str
    level: LogLevel
    text: str


_LETTERS = {"D": LogLevel.DEBUG, "I": LogLevel.INFO, "W": LogLevel.WARNING, "E": LogLevel.ERROR}
_ABORTED = (
    "graph_compute: ggml_backend_sched_graph_compute_async failed with error 1",
    "process_ubatch: failed to compute graph, compute status: 1",
)
"""What llama.cpp says of a computation that was told to end (GGML_STATUS_ABORTED): a request was cancelled."""
_ERROR_WORDS = re.compile(r"\b(?:error|fatal|abort(?:ed|ing)?|failed|failure|terminate)\b")
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")


def printable(text: str) -> str:
    """The line without colour codes and control characters."""
    return text if text.isprintable() else _CONTROL.sub("", text)


def level_of(text: str) -> LogLevel:
    """The engine marks its lines with a letter (`0.00.005.693 W srv …` or `W srv …`); others are judged by words.

    A cancelled request is no error, whatever the engine marks it as.
    """
    if text.endswith(_ABORTED):
        return LogLevel.INFO
    head = text[:24].split(" ", 2)
    for word in head[:2]:
        if word in _LETTERS and len(head) > 1:
            return _LETTERS[word]
    lower = text[:200].lower()
    # Plain searches first: a flood of quiet lines must cost next to nothing.
    if ("error" in lower or "fatal" in lower or "abort" in lower or "fail" in lower or "termin" in lower) and (
        _ERROR_WORDS.search(lower)
    ):
        return LogLevel.ERROR
    return LogLevel.WARNING if "warn" in lower else LogLevel.INFO
