"""Cells of the log: quiet time and source, level by colour and by a sign, search matches marked."""

from __future__ import annotations

from PySide6.QtCore import QObject
from PySide6.QtGui import QPainter
from PySide6.QtWidgets import QStyleOptionViewItem

from kvarn.viewmodels.live.log_vm import LINE_ROLE
from kvarn.views.theme import S
from kvarn.views.widgets.labels import one_line
from kvarn.views.widgets.plain_cells import Index, PlainCells

_TEXT = 2
_SIGNS = {"error": "✕ ", "warning": "! "}
_INKS = {"error": "bad", "warning": "warn", "debug": "mute"}


class LogCells(PlainCells):
    """`needle` is the text being searched for."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent, hairlines=False)
        self.needle = ""

    def text(self, index: Index) -> str:
        """The line with a sign for its level, or the quiet columns."""
        shown = str(index.data())
        return _SIGNS.get(index.data(LINE_ROLE).level, "") + one_line(shown) if index.column() == _TEXT else shown

    def role(self, index: Index) -> str:
        """Loud lines in their colour."""
        return _INKS.get(index.data(LINE_ROLE).level, "ink") if index.column() == _TEXT else "mute"

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Draw the cell over a mark behind the first match."""
        if self.needle and index.column() == _TEXT:
            self._mark(painter, option, index)
        super().paint(painter, option, index)

    def _mark(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        text = self.text(index)
        at = text.casefold().find(self.needle.casefold())
        if at < 0:
            return
        measure, place = option.fontMetrics.horizontalAdvance, option.rect
        left = place.left() + S + measure(text[:at])
        width = min(measure(text[at : at + len(self.needle)]), place.right() - left)
        painter.fillRect(left, place.top(), width, place.height(), self.ink("selection"))
