"""Monotonic time, injected so that tests can turn the hands."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Durations only: never a wall-clock reading, which may jump."""

    def now(self) -> float:
        """Monotonic seconds."""

    def sleep(self, seconds: float) -> None:
        """Wait that long."""


class SystemClock:
    """The machine's own monotonic clock."""

    def now(self) -> float:
        """Monotonic seconds."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait that long."""
        time.sleep(seconds)
