"""Cells of the log: quiet time and source, level by colour and by a sign, search matches marked."""

from __future__ import annotations

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRect
from PySide6.QtGui import QColor, QPainter, QPalette
from PySide6.QtWidgets import QStyledItemDelegate, QStyleOptionViewItem

from kvarn.viewmodels.live.log_vm import LEVEL_ROLE
from kvarn.views.theme import theme
from kvarn.views.widgets.labels import one_line

_TEXT = 2
_SIGNS = {"error": "✕ ", "warning": "! "}
_INSET = 4


class LogCells(QStyledItemDelegate):
    """`needle` is the text being searched for."""

    needle = ""

    def initStyleOption(self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex) -> None:
        """Ink and sign of one cell."""
        super().initStyleOption(option, index)
        level, colours = index.data(LEVEL_ROLE), theme().palette
        ink = {"error": colours.bad, "warning": colours.warn}.get(level, colours.ink)
        option.text = one_line(option.text)
        if index.column() == _TEXT:
            option.text = _SIGNS.get(level, "") + option.text
        else:
            ink = colours.mute
        for role in (QPalette.ColorRole.Text, QPalette.ColorRole.HighlightedText):
            option.palette.setColor(role, QColor(ink))

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        """Draw the cell, a marker behind the first match."""
        if self.needle and index.column() == _TEXT:
            self._mark(painter, option, index)
        super().paint(painter, option, index)

    def _mark(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        text = _SIGNS.get(index.data(LEVEL_ROLE), "") + one_line(index.data() or "")
        at = text.casefold().find(self.needle.casefold())
        if at < 0:
            return
        measure = option.fontMetrics.horizontalAdvance
        left = option.rect.left() + _INSET + measure(text[:at])
        place = QRect(left, option.rect.top(), measure(text[at : at + len(self.needle)]), option.rect.height())
        painter.fillRect(place & option.rect, QColor(theme().palette.selection))
