"""A clock that tests turn by hand."""

from __future__ import annotations


class HandClock:
    """Stands still until it is turned; sleeping turns it."""

    def __init__(self) -> None:
        self.t = 1000.0

    def now(self) -> float:
        return self.t

    def sleep(self, seconds: float) -> None:
        self.t += seconds
