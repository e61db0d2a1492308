"""Lines over time, e.g. speeds: the axis only grows, so curves do not jump while a session lasts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyqtgraph as pg
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QWidget

from kvarn.viewmodels.live.chart_frame import ChartFrame
from kvarn.views.live.charts.time_plot import TimePlot, nice_ceiling
from kvarn.views.theme import theme

_FAINT_ALPHA = 90


@dataclass(frozen=True)
class Line:
    """How one series is drawn. A faint line is the raw reading behind a smoothed one."""

    name: str
    label: str
    colour: str
    faint: bool = False
    steps: bool = False


class LinePlot(TimePlot):
    """Draws some of a frame's curves; `limit` names a fixed upper end, if there is one."""

    def __init__(
        self,
        lines: Sequence[Line],
        value_text: Callable[[float], str],
        *,
        shows_times: bool = False,
        least_top: float = 10.0,
        parent: QWidget | None = None,
    ) -> None:
        self.lines = tuple(lines)
        self._items = [pg.PlotCurveItem(connect="finite") for _ in self.lines]
        self._highest = least_top
        super().__init__(value_text, shows_times=shows_times, parent=parent)
        for item in self._items:
            self.plotItem.addItem(item, ignoreBounds=True)
        self.set_top(nice_ceiling(least_top))

    def show_frame(self, frame: ChartFrame) -> None:
        """Draw the lines; the axis follows a new maximum, never a falling curve."""
        super().show_frame(frame)
        for line, item in zip(self.lines, self._items, strict=True):
            shown = frame.curve(line.name)
            xs, ys = with_lone_points(shown.x_s, shown.values)
            item.setData(xs, ys)
            if not line.faint:
                self._highest = max(self._highest, shown.highest or 0)
        self.set_top(nice_ceiling(self._highest * 1.05))

    def restart(self, least_top: float = 10.0) -> None:
        """A new session: the axis may shrink once."""
        self._highest = least_top

    def apply_theme(self) -> None:
        """Pens for this palette."""
        super().apply_theme()
        for line, item in zip(self.lines, self._items, strict=True):
            colour = QColor(theme().palette.line_colour(line.colour))
            if line.faint:
                colour.setAlpha(_FAINT_ALPHA)
            item.setPen(self.pen(colour, 1 if line.faint else 2))


def with_lone_points(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A sample between two gaps has no line to either side: give it a short one, or it would not be seen."""
    finite = np.isfinite(y)
    before = np.concatenate(([False], finite[:-1]))
    after = np.concatenate((finite[1:], [False]))
    lone = np.flatnonzero(finite & ~before & ~after)
    if not len(lone):
        return x, y
    return np.insert(x, lone + 1, x[lone] + 0.25), np.insert(y, lone + 1, y[lone])
