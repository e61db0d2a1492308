"""One quantity over time: a ring of fixed size whose newest samples are always one slice."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from kvarn.domain.live.thinning import thin

__all__ = ["Floats", "Series", "thin"]

Floats = NDArray[np.float64]

DEFAULT_CAPACITY = 1 << 16
"""4.5 h at 4 samples a second, 18 h at one. A full series takes 2 MiB; pages never written cost nothing."""


class Series:
    """Samples (seconds, value) in the order of time; NaN is a gap.

    Every sample is written twice, `capacity` places apart, so any run of recent samples is contiguous
    and reading needs no wrap-around. Not locked: its owner sees to that.
    """

    def __init__(self, capacity: int = DEFAULT_CAPACITY) -> None:
        if capacity < 1:
            raise ValueError("a series needs room for at least one sample")
        self.capacity = capacity
        self._t: Floats = np.empty(2 * capacity)
        self._v: Floats = np.empty(2 * capacity)
        self._count = 0
        self._last_finite: tuple[float, float] | None = None

    def __len__(self) -> int:
        return min(self._count, self.capacity)

    def append(self, t_s: float, value: float) -> bool:
        """Add a sample; a value that is not finite becomes a gap.

        Returns False, and changes nothing, for a sample older than the last one.
        """
        last = self.last
        if last is not None and t_s < last[0]:
            return False
        value = value if math.isfinite(value) else math.nan
        place = self._count % self.capacity
        for at in (place, place + self.capacity):
            self._t[at] = t_s
            self._v[at] = value
        self._count += 1
        if value == value:
            self._last_finite = (t_s, value)
        return True

    @property
    def last(self) -> tuple[float, float] | None:
        """The newest sample (t, value), a gap included; None when empty."""
        if self._count == 0:
            return None
        place = (self._count - 1) % self.capacity
        return float(self._t[place]), float(self._v[place])

    @property
    def last_finite(self) -> tuple[float, float] | None:
        """The newest sample that is not a gap, however old."""
        return self._last_finite

    def window(self, t0_s: float, t1_s: float) -> tuple[Floats, Floats]:
        """Copies of the times and values with t0 <= t <= t1, both float64[n]."""
        t, v = self._held()
        low = int(np.searchsorted(t, t0_s, side="left"))
        high = int(np.searchsorted(t, t1_s, side="right"))
        return t[low:high].copy(), v[low:high].copy()

    def _held(self) -> tuple[Floats, Floats]:
        """Views of all held samples, oldest first."""
        size = len(self)
        start = self._count % self.capacity if self._count > self.capacity else 0
        return self._t[start : start + size], self._v[start : start + size]
