"""All live series of this run, shared by the thread that measures and the timer that draws."""

from __future__ import annotations

import math
import threading
from collections import deque
from typing import NamedTuple

import numpy as np

from kvarn.domain.live.series import DEFAULT_CAPACITY, Floats, Series

MARKS_KEPT = 4096
"""Of each kind: a storm of rebuilds must not push a load or an error off the chart."""


class Mark(NamedTuple):
    """An event drawn across the charts: `load`, `ready`, `stop`, `error`, `rebuild`, `test`; text for the hover."""

    t_s: float
    kind: str
    text: str


class TelemetryStore:
    """Name -> Series. Every read copies out under a short lock; `revision` moves with every change."""

    def __init__(self, capacity: int = DEFAULT_CAPACITY) -> None:
        self._capacity = capacity
        self._lock = threading.Lock()
        self._series: dict[str, Series] = {}
        self._marks: dict[str, deque[Mark]] = {}
        self._revision = 0
        self._run_began_s = -math.inf

    @property
    def revision(self) -> int:
        """A number that changes whenever anything here does; equal means nothing new to draw."""
        return self._revision

    def append(self, name: str, t_s: float, value: float) -> None:
        """Add one sample; a value that is not finite becomes a gap, one from the past is dropped."""
        with self._lock:
            series = self._series.get(name)
            if series is None:
                series = self._series[name] = Series(self._capacity)
            if series.append(t_s, value):
                self._revision += 1

    def put(self, name: str, t_s: float, value: float | None) -> None:
        """Add one sample, or end the line here when nothing is known."""
        if value is None:
            self.gap(name, t_s)
        else:
            self.append(name, t_s, value)

    def gap(self, name: str, t_s: float) -> None:
        """End the line here: nothing is known until the next sample. A gap after a gap is the same gap."""
        with self._lock:
            series = self._series.get(name)
            if series is None or series.last is None or math.isnan(series.last[1]):
                return
            if series.append(t_s, math.nan):
                self._revision += 1

    def window(self, name: str, t0_s: float, t1_s: float) -> tuple[Floats, Floats]:
        """Copies of times and values with t0 <= t <= t1; two empty arrays for an unknown name."""
        with self._lock:
            series = self._series.get(name)
            return series.window(t0_s, t1_s) if series else (np.empty(0), np.empty(0))

    def latest(self, name: str) -> float | None:
        """The newest value; None when there is none or the line ends in a gap."""
        sample = self.last_sample(name)
        return None if sample is None or math.isnan(sample[1]) else sample[1]

    def last_sample(self, name: str) -> tuple[float, float] | None:
        """The newest sample (t, value), NaN for a gap; None when there was never one."""
        with self._lock:
            series = self._series.get(name)
            return series.last if series else None

    def last_finite(self, name: str) -> tuple[float, float] | None:
        """The newest sample of this run that is not a gap, for a greyed 'last' figure."""
        with self._lock:
            series = self._series.get(name)
            sample = series.last_finite if series else None
            return sample if sample and sample[0] >= self._run_began_s else None

    def begin_run(self, t_s: float) -> None:
        """Another engine from here on: what an earlier one did stays drawn, but is no 'last' figure any more."""
        with self._lock:
            self._run_began_s = t_s

    def names(self) -> tuple[str, ...]:
        """The quantities seen so far."""
        with self._lock:
            return tuple(self._series)

    def mark(self, t_s: float, kind: str, text: str) -> None:
        """Note an event."""
        with self._lock:
            self._marks.setdefault(kind, deque(maxlen=MARKS_KEPT)).append(Mark(t_s, kind, text))
            self._revision += 1

    def marks(self, t0_s: float, t1_s: float) -> tuple[Mark, ...]:
        """Events with t0 <= t <= t1, oldest first."""
        with self._lock:
            found = [mark for kept in self._marks.values() for mark in kept if t0_s <= mark.t_s <= t1_s]
        return tuple(sorted(found, key=lambda mark: mark.t_s))

    def clear(self) -> None:
        """Forget everything, for a new run."""
        with self._lock:
            self._series.clear()
            self._marks.clear()
            self._revision += 1
