"""Speeds from counts that are only looked at now and then. Time is given, never read."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

MEAN_SPAN_S = 2.0


class Growth(NamedTuple):
    """By how much a total grew between two looks, and the real time between them."""

    amount: float
    seconds: float


class CounterGrowth:
    """Differences of a running total. A total that falls or goes missing begins a new segment."""

    def __init__(self) -> None:
        self._last: tuple[float, float] | None = None

    def look(self, t_s: float, total: float | None) -> Growth | None:
        """Growth since the last look; None on the first look of a segment, which is a gap, not a zero."""
        last, self._last = self._last, None if total is None else (t_s, total)
        if last is None or total is None or total < last[1] or t_s <= last[0]:
            return None
        return Growth(total - last[1], t_s - last[0])


class CountSpeed:
    """The speed of a count that advances in steps between looks: tokens of one running request.

    Time is taken only between looks at which the count had advanced, so neither the wait before the first step
    nor the pause between two steps is mistaken for work or for speed. The first look sets no time: how long ago
    that count was reached is unknown.
    """

    def __init__(self, *, least_s: float, span_s: float = MEAN_SPAN_S) -> None:
        self._least_s = least_s
        """A mean over less time than this is mostly the error of the two looks."""
        self._span_s = span_s
        self._count: float | None = None
        self._advances: deque[tuple[float, float]] = deque()
        self._raw_from: tuple[float, float] | None = None

    def look(self, t_s: float, count: float) -> float | None:
        """Note the count; returns the raw speed when enough has passed since the last one."""
        if self._count is None or count < self._count:
            self._count = count
            self._advances.clear()
            self._raw_from = None
        if count == self._count:
            return None
        self._count = count
        self._advances.append((t_s, count))
        while len(self._advances) > 2 and self._advances[1][0] <= t_s - self._span_s:
            self._advances.popleft()
        return self._raw(t_s, count)

    def mean(self, now_s: float) -> float | None:
        """Mean over the last `span_s` or a little more; falls when the next step is overdue; None before a basis."""
        if len(self._advances) < 2:
            return None
        (t0, n0), (t1, n1) = self._advances[0], self._advances[-1]
        if t1 - t0 < self._least_s or not _is_basis(n1 - n0, t1 - t0):
            return None
        # The next step, if like the last one, is not done yet: that bounds the speed from above.
        step = n1 - self._advances[-2][1]
        return min((n1 - n0) / (t1 - t0), (n1 - n0 + step) / (now_s - t0))

    def _raw(self, t_s: float, count: float) -> float | None:
        if self._raw_from is None:
            self._raw_from = (t_s, count)
            return None
        t0, n0 = self._raw_from
        if t_s <= t0 or not _is_basis(count - n0, t_s - t0):
            return None
        self._raw_from = (t_s, count)
        return (count - n0) / (t_s - t0)


def _is_basis(steps: float, seconds: float) -> bool:
    """One step or one look more or less must not be most of the speed."""
    return steps >= 4 or seconds >= 1


ABSURD_PER_S = 1e9
"""No engine counts as fast: a broken time."""


def per_second(count: int | None, milliseconds: float | None) -> float | None:
    """Steps a second of one request; None where nothing was counted or no time is told."""
    if not count or not milliseconds or count <= 0 or milliseconds <= 0:
        return None
    speed = 1000 * count / milliseconds
    return speed if speed < ABSURD_PER_S else None
