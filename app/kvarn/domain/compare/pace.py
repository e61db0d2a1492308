"""How long a comparison will still take, from how long its steps have taken."""

from __future__ import annotations

import statistics
from collections.abc import Iterable

from kvarn.domain.compare.steps import SpeedStep


class SpeedPace:
    """Times of this sitting only: a resumed comparison may stand on a busier machine."""

    def __init__(self) -> None:
        self._seconds: dict[tuple[str, int], float] = {}

    def took(self, step: SpeedStep, seconds: float) -> None:
        """A run took that long."""
        self._seconds[step.pair.name, step.depth] = seconds

    def left_s(self, steps: Iterable[SpeedStep]) -> float | None:
        """For these runs; None while one stands at a depth that nothing is known about."""
        parts = [self._step_s(step) for step in steps]
        known = [part for part in parts if part is not None]
        return sum(known) if len(known) == len(parts) else None

    def _step_s(self, step: SpeedStep) -> float | None:
        own = self._seconds.get((step.pair.name, step.depth))
        alike = [seconds for (_, depth), seconds in self._seconds.items() if depth == step.depth]
        return own if own is not None else statistics.fmean(alike) if alike else None


class ReadingPace:
    """Pieces of equal size, read since `began_s`."""

    def __init__(self, pieces: int, began_s: float) -> None:
        self._pieces, self._began_s, self._read = pieces, began_s, 0

    def read_one(self) -> None:
        """One more piece is read."""
        self._read += 1

    def left_s(self, now_s: float) -> float | None:
        """None before the first piece."""
        return (now_s - self._began_s) / self._read * (self._pieces - self._read) if self._read else None
