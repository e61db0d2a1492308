"""What pyqtgraph has not: bands stacked on each other and bars, both with real gaps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QBrush, QColor, QPainter, QPen, QPolygonF
from PySide6.QtWidgets import QStyleOptionGraphicsItem, QWidget

from kvarn.viewmodels.live.chart_frame import Floats, finite_runs

_PALE = 95
"""Opacity under a hatch, of 255."""


class BandItem(pg.GraphicsObject):
    """One filled band between two lines over the same times."""

    def __init__(self) -> None:
        super().__init__()
        self._polygons: list[QPolygonF] = []
        self._bounds = QRectF()
        self._brushes: list[QBrush] = []

    def set_look(self, colour: str, *, hatched: bool) -> None:
        """Planned amounts are hatched, measured ones solid."""
        fill, pale = QColor(colour), QColor(colour)
        pale.setAlpha(_PALE)
        self._brushes = [QBrush(pale), QBrush(fill, Qt.BrushStyle.BDiagPattern)] if hatched else [QBrush(fill)]
        self.update()

    def set_band(self, times: Floats, low: Floats, high: Floats) -> None:
        """Replace the band; NaN in either line is a gap."""
        self.prepareGeometryChange()
        self._polygons = [_ring(times[run], low[run], high[run]) for run in finite_runs(low + high)]
        self._bounds = QRectF()
        for polygon in self._polygons:
            self._bounds = self._bounds.united(polygon.boundingRect())
        self.update()

    def boundingRect(self) -> QRectF:
        """The band's extent in data units."""
        return self._bounds

    def paint(self, painter: QPainter, _option: QStyleOptionGraphicsItem, _widget: QWidget | None = None) -> None:
        """Fill each unbroken part."""
        painter.setPen(Qt.PenStyle.NoPen)
        for brush in self._brushes:
            if brush.style() is not Qt.BrushStyle.SolidPattern:
                # A hatch lives in screen pixels, whatever the data units are.
                brush.setTransform(painter.worldTransform().inverted()[0])
            painter.setBrush(brush)
            for polygon in self._polygons:
                painter.drawPolygon(polygon)


class BarItem(pg.GraphicsObject):
    """Upright bars at given times, each `width` seconds wide and ending at its time."""

    def __init__(self) -> None:
        super().__init__()
        self._bars: list[QRectF] = []
        self._bounds = QRectF()
        self._colour = QColor()

    def set_colour(self, colour: str) -> None:
        """Fill colour."""
        self._colour = QColor(colour)
        self.update()

    def set_bars(self, times: Floats, heights: Floats, width: float) -> None:
        """Replace all bars; zero, NaN and infinity draw nothing."""
        self.prepareGeometryChange()
        drawn = np.isfinite(heights) & (heights > 0)
        pairs: Sequence[tuple[float, float]] = list(zip(times[drawn].tolist(), heights[drawn].tolist(), strict=True))
        self._bars = [QRectF(t - width, 0, width, h) for t, h in pairs]
        self._bounds = QRectF()
        for bar in self._bars:
            self._bounds = self._bounds.united(bar)
        self.update()

    def boundingRect(self) -> QRectF:
        """The bars' extent in data units."""
        return self._bounds

    def paint(self, painter: QPainter, _option: QStyleOptionGraphicsItem, _widget: QWidget | None = None) -> None:
        """Fill the bars."""
        painter.setPen(QPen(Qt.PenStyle.NoPen))
        painter.setBrush(self._colour)
        painter.drawRects(self._bars)


def _ring(times: Floats, low: Floats, high: Floats) -> QPolygonF:
    """Up along `high`, back along `low`; a single sample becomes a sliver rather than nothing."""
    if len(times) == 1:
        times, low, high = (np.repeat(part, 2) for part in (times, low, high))
        times = times + np.array([-0.1, 0.1])
    return pg.functions.arrayToQPolygonF(np.concatenate((times, times[::-1])), np.concatenate((high, low[::-1])))
