"""The memory budget as one bar: a part for each kind, hatched where it is only a guess."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QBrush, QColor, QHelpEvent, QPainter, QPainterPath, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from kvarn.domain.colours import MEMORY_COLOURS
from kvarn.domain.launch.memory_budget import MemoryBudget, MemoryPart
from kvarn.viewmodels.launch.budget_text import part_text
from kvarn.views.theme import theme
from kvarn.views.widgets.labels import plain_tip

_HEIGHT = 16


class BudgetBar(QWidget):
    """The bar's length is what is free, or what is needed if that is more; then a mark shows where free ends."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._budget: MemoryBudget | None = None
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Memory, predicted")

    def show_budget(self, budget: MemoryBudget | None, description: str) -> None:
        """Draw another budget; the description is what a screen reader says."""
        self._budget = budget
        self.setAccessibleDescription(description)
        self.update()

    def sizeHint(self) -> QSize:
        """As tall as a line of text."""
        return QSize(120, _HEIGHT)

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Parts from the left, the free rest blank, the limit as a line."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        colours = theme().palette
        frame = QRectF(0.5, 0.5, self.width() - 1, self.height() - 1)
        outline = QPainterPath()
        outline.addRoundedRect(frame, 4, 4)
        painter.fillPath(outline, QColor(colours.sunken))
        painter.save()
        painter.setClipPath(outline)
        for part, place in self._places():
            _fill(painter, place, part)
        painter.restore()
        painter.setPen(QPen(QColor(colours.line_strong), 1))
        painter.drawPath(outline)
        self._draw_limit(painter)

    def event(self, event: QEvent) -> bool:
        """The part under the pointer says what it is."""
        if event.type() is QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            hit = next((part for part, place in self._places() if place.contains(QPointF(event.pos()))), None)
            QToolTip.showText(event.globalPos(), plain_tip(part_text(hit)) if hit else "", self)
            return True
        return super().event(event)

    def _span(self) -> int:
        """Bytes the whole width stands for; 0 when nothing can be drawn."""
        total = self._budget.total_bytes if self._budget else None
        return max(total, self._budget.free_bytes or 0) if self._budget and total else 0

    def _places(self) -> list[tuple[MemoryPart, QRectF]]:
        span, left, places = self._span(), 0.0, []
        for part in self._budget.parts if self._budget and span else ():
            width = part.bytes / span * self.width()
            places.append((part, QRectF(left, 0, width, self.height())))
            left += width
        return places

    def _draw_limit(self, painter: QPainter) -> None:
        free = self._budget.free_bytes if self._budget else None
        if free is None or not self._span() or free >= self._span():
            return
        x = free / self._span() * self.width()
        painter.setPen(QPen(QColor(theme().palette.bad), 2))
        painter.drawLine(QPointF(x, 0), QPointF(x, self.height()))


def _fill(painter: QPainter, place: QRectF, part: MemoryPart) -> None:
    colour = QColor(theme().palette.line_colour(MEMORY_COLOURS[part.kind]))
    # A hair of the ground between neighbours keeps them apart without colour.
    inner = place.adjusted(0, 0, -1 if place.width() > 3 else 0, 0)
    if not part.rough:
        painter.fillRect(inner, colour)
        return
    pale = QColor(colour)
    pale.setAlphaF(0.35)
    painter.fillRect(inner, pale)
    painter.fillRect(inner, QBrush(colour, Qt.BrushStyle.BDiagPattern))
