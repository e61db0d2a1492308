"""A dot whose colour and shape tell the engine's phase; the words stand beside it."""

from __future__ import annotations

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QWidget

from kvarn.views.theme import theme


class StateDot(QWidget):
    """`state`: `good` filled, `busy` half filled, `bad` with a bar, `off` hollow. Readable without colour."""

    def __init__(self, state: str = "off", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._state = state
        self.setFixedSize(12, 12)

    def set_state(self, state: str) -> None:
        """Show another state."""
        if state != self._state:
            self._state = state
            self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Draw the dot."""
        p = theme().palette
        colour = QColor({"good": p.good, "busy": p.warn, "bad": p.bad}.get(self._state, p.mute))
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(colour, 1.6))
        disc = QRectF(1.5, 1.5, 9, 9)
        painter.setBrush(colour if self._state in {"good", "bad"} else Qt.BrushStyle.NoBrush)
        painter.drawEllipse(disc)
        if self._state == "busy":
            painter.setBrush(colour)
            painter.drawPie(disc, 90 * 16, 180 * 16)
        elif self._state == "bad":
            painter.setPen(QPen(QColor(p.ground), 1.8))
            painter.drawLine(4, 6, 8, 6)
