"""What one redraw shows: arrays ready for the screen, times relative to now."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

PLAUSIBLE = 1e15
"""Beyond this a reading is a fault: an axis that followed it would flatten everything else."""


def finite_runs(values: Floats) -> list[slice]:
    """Index ranges without a gap."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], np.isfinite(values), [False])).astype(np.int8)))
    return [slice(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]


@dataclass(frozen=True)
class CurveFrame:
    """`x_s` seconds relative to now (never above 0), `values` in the series' own unit, NaN where there is a gap."""

    x_s: Floats
    values: Floats

    @property
    def is_empty(self) -> bool:
        """True when no sample can be drawn."""
        return not np.isfinite(self.values).any()

    @property
    def highest(self) -> float | None:
        """The highest sample, None without any."""
        return None if self.is_empty else float(np.nanmax(self.values))

    @property
    def last(self) -> float | None:
        """The newest sample; None when the curve ends in a gap."""
        return float(self.values[-1]) if len(self.values) and np.isfinite(self.values[-1]) else None

    def at(self, x_s: float, tolerance_s: float) -> float | None:
        """The sample nearest to `x_s`, None when there is none within the tolerance."""
        near = np.where(np.isfinite(self.values), np.abs(self.x_s - x_s), np.inf)
        if not len(near) or near.min() > tolerance_s:
            return None
        return float(self.values[int(near.argmin())])


EMPTY_CURVE = CurveFrame(np.empty(0), np.empty(0))


def curve(times_s: Floats, values: Floats, now_s: float) -> CurveFrame:
    """Absolute times and raw values -> a curve; infinite and absurd values become gaps."""
    sound = np.isfinite(values) & (np.abs(np.nan_to_num(values)) < PLAUSIBLE)
    return CurveFrame(times_s - now_s, np.where(sound, values, np.nan))


@dataclass(frozen=True)
class MarkFrame:
    """An event on the time axis. `kind`: load, unload, error, change, test."""

    x_s: float
    kind: str
    text: str


@dataclass(frozen=True)
class MemoryBand:
    """One layer of the memory stack, in bytes. `planned` amounts come from the budget, not from a reading."""

    key: str
    label: str
    curve: CurveFrame
    planned: bool = False


@dataclass(frozen=True)
class ChartFrame:
    """Everything the charts draw in one go."""

    span_s: float
    wall_now_s: float
    """Unix time of x = 0, for labels only."""
    curves: dict[str, CurveFrame] = field(default_factory=dict)
    marks: tuple[MarkFrame, ...] = ()
    memory: tuple[MemoryBand, ...] = ()
    memory_limit_bytes: float | None = None
    memory_limit_label: str = ""

    captions: dict[str, str] = field(default_factory=dict)
    """Series name -> why there is nothing to draw."""

    @property
    def memory_is_known(self) -> bool:
        """True when the stack has anything to show."""
        return any(not band.curve.is_empty for band in self.memory)

    @property
    def lines(self) -> tuple[MarkFrame, ...]:
        """Marks drawn across all charts; graph rebuilds have a chart of their own."""
        return tuple(mark for mark in self.marks if mark.kind != "rebuild")

    def curve(self, name: str) -> CurveFrame:
        """A series by name, empty when it is unknown."""
        return self.curves.get(name, EMPTY_CURVE)
