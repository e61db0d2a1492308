"""A thin bar of shares, or a row of small columns: proportions beside the figures that state them."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QRectF, QSize
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from kvarn.views.theme import theme

_HEIGHT = 14
_BAR = 6
_COLUMN, _GAP = 8, 3


class ShareBar(QWidget):
    """Draws pairs of (share 0 to 1, `#RRGGBB`) from the left, or columns of 0 to 1 side by side."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._shares: tuple[tuple[float, str], ...] = ()
        self._columns: tuple[float | None, ...] = ()
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def show_shares(self, shares: Sequence[tuple[float, str]], columns: Sequence[float | None] = ()) -> None:
        """Draw others; what is drawn already costs nothing."""
        if tuple(shares) != self._shares or tuple(columns) != self._columns:
            self._shares, self._columns = tuple(shares), tuple(columns)
            self.update()

    def sizeHint(self) -> QSize:
        """As wide as a short word, as tall as a small letter."""
        return QSize(96, _HEIGHT)

    def paintEvent(self, _event: QPaintEvent) -> None:
        """The ground first, so that an empty bar is seen to be empty."""
        painter = QPainter(self)
        if self._columns:
            self._paint_columns(painter)
        elif self._shares:
            self._paint_bar(painter)

    def _paint_bar(self, painter: QPainter) -> None:
        top, left = (self.height() - _BAR) / 2, 0.0
        painter.fillRect(QRectF(0, top, self.width(), _BAR), QColor(theme().palette.line))
        for share, colour in self._shares:
            width = share * self.width()
            painter.fillRect(QRectF(left, top, width, _BAR), QColor(theme().palette.line_colour(colour)))
            left += width

    def _paint_columns(self, painter: QPainter) -> None:
        for number, share in enumerate(self._columns):
            place = QRectF(number * (_COLUMN + _GAP), 0, _COLUMN, self.height())
            painter.fillRect(place, QColor(theme().palette.line))
            if share is not None:
                filled = place.adjusted(0, (1 - min(max(share, 0), 1)) * place.height(), 0, 0)
                painter.fillRect(filled, QColor(theme().palette.accent))
