"""The names of curves, written where the curves end instead of in a legend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QRect, Qt
from PySide6.QtGui import QColor, QFontMetrics, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from kvarn.views.theme import sized_font, theme

WIDTH = 112
TOP = 7
"""Height above the plot area, in pixels."""


@dataclass(frozen=True)
class EndLabel:
    """`share` is the height of the curve's end, 0 at the bottom of the plot and 1 at its top."""

    text: str
    colour: str
    share: float


class EndLabels(QWidget):
    """Keeps its labels apart: they slide, in order, to where there is room."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._labels: tuple[EndLabel, ...] = ()
        self._bottom = 0
        self.setFont(sized_font(0.86))
        self.setFixedWidth(WIDTH)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Expanding)

    def set_labels(self, labels: Sequence[EndLabel], bottom_px: int) -> None:
        """`bottom_px` is the height of the time axis below the plot."""
        if tuple(labels) != self._labels or bottom_px != self._bottom:
            self._labels, self._bottom = tuple(labels), bottom_px
            self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Write the labels."""
        painter = QPainter(self)
        metrics = QFontMetrics(self.font())
        height = metrics.height()
        painter.translate(0, TOP)
        room = self.height() - self._bottom - TOP
        ordered = sorted(self._labels, key=lambda label: label.share)
        for label, y in zip(ordered, spread([room * (1 - ll.share) for ll in ordered], height, room), strict=True):
            painter.setPen(QColor(theme().palette.label_colour(label.colour)))
            shown = metrics.elidedText(label.text, Qt.TextElideMode.ElideRight, self.width() - 2)
            box = QRect(2, round(y - height / 2), self.width() - 2, height)
            painter.drawText(box, int(Qt.AlignmentFlag.AlignVCenter | Qt.TextFlag.TextSingleLine), shown)


def spread(wanted: list[float], gap: float, room: float) -> list[float]:
    """Positions from the bottom up, at least `gap` apart, inside 0..room as long as there is room."""
    placed: list[float] = []
    limit = room - gap / 2
    for y in wanted:
        limit = min(limit, y)
        placed.append(limit)
        limit -= gap
    shift = gap / 2 - placed[-1] if placed and placed[-1] < gap / 2 else 0
    if shift:
        for at in range(len(placed) - 1, -1, -1):
            above = placed[at + 1] + gap if at + 1 < len(placed) else gap / 2
            placed[at] = max(placed[at], above)
    return placed
