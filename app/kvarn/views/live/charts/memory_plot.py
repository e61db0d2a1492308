"""Memory as a stack, with the end of the card or of the RAM as a dashed line."""

from __future__ import annotations

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget

from kvarn.domain.colours import MEMORY_COLOURS, NEUTRAL, OTHER_MEMORY
from kvarn.domain.launch.memory_budget import MemoryKind
from kvarn.domain.quantity_text import bytes_text
from kvarn.viewmodels.live.chart_frame import ChartFrame, MemoryBand
from kvarn.viewmodels.live.memory_bands import COMPUTE, KV, OTHER, WEIGHTS
from kvarn.views.live.charts.plot_items import BandItem
from kvarn.views.live.charts.time_plot import TimePlot, nice_ceiling
from kvarn.views.theme import theme

MEMORY_BAND_COLOURS = {
    WEIGHTS: MEMORY_COLOURS[MemoryKind.WEIGHTS],
    KV: MEMORY_COLOURS[MemoryKind.KV],
    COMPUTE: MEMORY_COLOURS[MemoryKind.COMPUTE],
    OTHER: OTHER_MEMORY,
}
_GIB = 1 << 30
_MIB = 1 << 20
_LIMIT_SHOWN_BELOW = 3
"""The limit line is part of the axis when the engine takes at least a third of it; else it is a sentence."""


def memory_text(amount: float) -> str:
    """Axis label."""
    return "0" if amount == 0 else bytes_text(round(amount))


class MemoryPlot(TimePlot):
    """Bands from the bottom up in the order of the frame."""

    def __init__(self, *, shows_times: bool = False, parent: QWidget | None = None) -> None:
        self._bands: list[BandItem] = []
        self._limit = pg.InfiniteLine(angle=0)
        self._highest = 0.0
        self._drawn: tuple[MemoryBand, ...] = ()
        super().__init__(memory_text, shows_times=shows_times, parent=parent)
        self.plotItem.addItem(self._limit, ignoreBounds=True)
        self.set_top(_GIB)

    def show_frame(self, frame: ChartFrame) -> None:
        """Stack the bands; a gap in one is a gap in all above it."""
        super().show_frame(frame)
        self._drawn = frame.memory
        self._provide(len(frame.memory))
        low: np.ndarray | None = None
        for band, item in zip(frame.memory, self._bands, strict=False):
            low = np.zeros_like(band.curve.values) if low is None else low
            high = low + band.curve.values
            item.set_band(band.curve.x_s, low, high)
            low = high
        finite = low[np.isfinite(low)] if low is not None else np.empty(0)
        self._highest = max(self._highest, float(finite.max()) if len(finite) else 0.0)
        self._fit_axis(frame.memory_limit_bytes)
        self._paint_bands()

    def restart(self) -> None:
        """A new session: the axis may shrink once."""
        self._highest = 0.0

    def apply_theme(self) -> None:
        """Colours for this palette."""
        super().apply_theme()
        self._limit.setPen(self.pen(theme().palette.bad, style=Qt.PenStyle.DashLine))
        self._paint_bands()

    def _fit_axis(self, limit: float | None) -> None:
        near = limit is not None and self._highest * _LIMIT_SHOWN_BELOW >= limit
        self._limit.setVisible(near)
        if near and limit is not None:
            self._limit.setPos(limit)
            self.set_top(limit * 1.06, (0, limit / 2, limit))
        else:
            unit = _GIB if self._highest >= _GIB else _MIB
            self.set_top(nice_ceiling(self._highest * 1.05 / unit) * unit if self._highest else _GIB)

    def _provide(self, count: int) -> None:
        while len(self._bands) < count:
            item = BandItem()
            self.plotItem.addItem(item, ignoreBounds=True)
            self._bands.append(item)
        for number, item in enumerate(self._bands):
            item.setVisible(number < count)

    def _paint_bands(self) -> None:
        for band, item in zip(self._drawn, self._bands, strict=False):
            item.set_look(MEMORY_BAND_COLOURS.get(band.key, NEUTRAL), hatched=band.planned)
