"""Three figures with the shape of their last minutes."""

from __future__ import annotations

import numpy as np
from PySide6.QtWidgets import QHBoxLayout, QWidget

from kvarn.domain import colours
from kvarn.domain.live import quantities as q
from kvarn.viewmodels.live.chart_frame import ChartFrame
from kvarn.viewmodels.live.headlines import Headline
from kvarn.views.theme import M
from kvarn.views.widgets.headline_figure import HeadlineFigure


class HeadlineRow(QWidget):
    """Shows three `Headline`s and draws their sparklines from a frame."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._figures = (
            HeadlineFigure("Decode", "tok/s", colours.DECODE),
            HeadlineFigure("Memory", "", colours.NEUTRAL),
            HeadlineFigure("Graph rebuilds", "", colours.VERMILION),
        )
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(M)
        for figure in self._figures:
            layout.addWidget(figure, 1)

    def show_headlines(self, headlines: tuple[Headline, ...]) -> None:
        """New texts."""
        for figure, shown in zip(self._figures, headlines, strict=True):
            figure.set_label(shown.label)
            figure.show_value(shown.value, shown.unit, shown.sub, shown.role, is_dim=shown.is_dim)

    def show_frame(self, frame: ChartFrame) -> None:
        """New sparklines."""
        speed, built = frame.curve(q.DECODE_TOK_PER_S), frame.curve(q.GRAPH_BUILT)
        curves = [(speed.x_s, speed.values), _total_memory(frame), (built.x_s, built.values)]
        for figure, (times, values) in zip(self._figures, curves, strict=True):
            figure.sparkline.set_values(times, values, -frame.span_s, 0)


def _total_memory(frame: ChartFrame) -> tuple[np.ndarray, np.ndarray]:
    if not frame.memory:
        return np.empty(0), np.empty(0)
    return frame.memory[0].curve.x_s, np.sum([band.curve.values for band in frame.memory], axis=0)
