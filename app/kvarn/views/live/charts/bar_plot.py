"""Counts per interval as bars: they are events, so no line joins them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PySide6.QtWidgets import QWidget

from kvarn.viewmodels.live.chart_frame import ChartFrame
from kvarn.views.live.charts.line_plot import Line
from kvarn.views.live.charts.plot_items import BarItem
from kvarn.views.live.charts.time_plot import TimePlot
from kvarn.views.theme import theme

_BINS = 120
_LEAST_TOP = 4


class BarPlot(TimePlot):
    """Sums each series over bins that lie still on the time axis, so bars do not flicker as they scroll."""

    def __init__(self, lines: Sequence[Line], *, shows_times: bool = False, parent: QWidget | None = None) -> None:
        self.lines = tuple(lines)
        self._items = [BarItem() for _ in self.lines]
        super().__init__(lambda v: f"{v:,.0f}", shows_times=shows_times, parent=parent)
        for item in self._items:
            self.plotItem.addItem(item, ignoreBounds=True)
        self.set_top(_LEAST_TOP)

    def show_frame(self, frame: ChartFrame) -> None:
        """Draw the bars of all series; the axis fits the visible ones."""
        super().show_frame(frame)
        width = max(0.5, frame.span_s / _BINS)
        highest = 0.0
        for line, item in zip(self.lines, self._items, strict=True):
            shown = frame.curve(line.name)
            ends, sums = binned(shown.x_s, shown.values, width, frame.wall_now_s)
            item.set_bars(ends, sums, width * 0.8)
            highest = max(highest, float(sums.max()) if len(sums) else 0.0)
        even = int(np.ceil(highest / 2) * 2)
        self.set_top(max(_LEAST_TOP, even))

    def apply_theme(self) -> None:
        """Colours for this palette."""
        super().apply_theme()
        for line, item in zip(self.lines, self._items, strict=True):
            item.set_colour(theme().palette.line_colour(line.colour))


def binned(x_s: np.ndarray, counts: np.ndarray, width_s: float, origin_s: float) -> tuple[np.ndarray, np.ndarray]:
    """Sums per bin as (right edges relative to now, sums); bins are whole multiples of their width since the epoch."""
    sound = np.isfinite(counts) & (counts > 0)
    if not sound.any():
        return np.empty(0), np.empty(0)
    number = np.ceil((x_s[sound] + origin_s) / width_s)
    bins, place = np.unique(number, return_inverse=True)
    return bins * width_s - origin_s, np.bincount(place, weights=counts[sound])
