"""A small line without axes: the shape of the last minute beside a number."""

from __future__ import annotations

import numpy as np
from pyqtgraph.functions import arrayToQPolygonF
from PySide6.QtCore import QSize
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QSizePolicy, QWidget

from kvarn.domain.colours import NEUTRAL
from kvarn.viewmodels.live.chart_frame import Floats, finite_runs
from kvarn.views.theme import theme


class Sparkline(QWidget):
    """Draws `values` (any count, NaN and infinity are gaps) over `times` from 0 to the highest finite value."""

    def __init__(self, colour: str = NEUTRAL, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._colour = colour
        self._times: Floats = np.empty(0)
        self._values: Floats = np.empty(0)
        self._span = (0.0, 1.0)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def sizeHint(self) -> QSize:
        """Small: it stands beside a figure."""
        return QSize(96, 30)

    def minimumSizeHint(self) -> QSize:
        """The figure beside it comes first."""
        return QSize(16, 30)

    def set_values(self, times: Floats, values: Floats, start: float, end: float) -> None:
        """`start` and `end` are the times at the left and right edge."""
        self._times, self._values, self._span = times, values, (start, end)
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        """One polyline for each unbroken run."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(QColor(theme().palette.line_colour(self._colour)), 1.5))
        for run in self._runs():
            if run.size() == 1:
                painter.drawPoint(run.at(0))
            else:
                painter.drawPolyline(run)

    def _runs(self) -> list[QPolygonF]:
        finite = np.isfinite(self._values) & (np.abs(self._values) < 1e300)
        if not finite.any():
            return []
        top = 1.25 * float(self._values[finite].max()) or 1.0
        start, end = self._span
        width, height = self.width() - 2, self.height() - 3
        xs = 1 + (self._times - start) / max(end - start, 1e-9) * width
        ys = 1.5 + height * (1 - np.where(finite, self._values, 0) / top)
        return [arrayToQPolygonF(xs[run], ys[run]) for run in finite_runs(np.where(finite, ys, np.nan))]
