"""Table cells drawn directly: one line of plain text in one colour, a hairline beneath.

Styled items cost ten times as much in Python, which a log that scrolls ten times a second would feel.
"""

from __future__ import annotations

from PySide6.QtCore import QModelIndex, QObject, QPersistentModelIndex, QSize, Qt
from PySide6.QtGui import QColor, QPainter
from PySide6.QtWidgets import QStyle, QStyledItemDelegate, QStyleOptionViewItem

from kvarn.views.theme import S, theme

Index = QModelIndex | QPersistentModelIndex
_CENTRE = Qt.AlignmentFlag.AlignVCenter


class PlainCells(QStyledItemDelegate):
    """Subclasses say what a cell shows with `text`, `role` (a colour of the palette) and `is_right`."""

    def __init__(self, parent: QObject, *, hairlines: bool = True) -> None:
        super().__init__(parent)
        self._hairlines = hairlines
        self._inks: dict[str, QColor] = {}
        theme().changed.connect(self._inks.clear)

    def text(self, index: Index) -> str:
        """One line of text."""
        return str(index.data() or "")

    def role(self, index: Index) -> str:
        """Name of the palette colour to write in."""
        return "ink"

    def is_right(self, index: Index) -> bool:
        """True for figures."""
        return False

    def ink(self, role: str) -> QColor:
        """The palette's colour, made once a theme."""
        if role not in self._inks:
            self._inks[role] = QColor(getattr(theme().palette, role))
        return self._inks[role]

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Draw one cell."""
        place = option.rect
        if option.state & QStyle.StateFlag.State_Selected:
            painter.fillRect(place, self.ink("selection"))
        if self._hairlines:
            painter.fillRect(place.left(), place.bottom(), place.width(), 1, self.ink("line"))
        room = place.adjusted(S, 0, -S, 0)
        shown = self.text(index)
        if len(shown) * option.fontMetrics.maxWidth() > room.width():
            shown = option.fontMetrics.elidedText(shown, Qt.TextElideMode.ElideRight, room.width())
        side = Qt.AlignmentFlag.AlignRight if self.is_right(index) else Qt.AlignmentFlag.AlignLeft
        painter.setFont(option.font)
        painter.setPen(self.ink(self.role(index)))
        painter.drawText(room, int(side | _CENTRE), shown)

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        """As wide as the text."""
        width = option.fontMetrics.horizontalAdvance(self.text(index)) + 2 * S
        return QSize(width, option.fontMetrics.height() + S)
