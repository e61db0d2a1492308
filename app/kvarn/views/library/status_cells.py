"""Rows of the library: unusable models are greyed, their reason is told in the warning colour."""

from __future__ import annotations

from PySide6.QtGui import QHelpEvent
from PySide6.QtWidgets import QAbstractItemView, QStyleOptionViewItem, QToolTip

from kvarn.viewmodels.library.model_table import COLUMNS, ENTRY_ROLE
from kvarn.views.theme import S
from kvarn.views.widgets.labels import one_line, plain_tip
from kvarn.views.widgets.plain_cells import Index, PlainCells

_STATUS = len(COLUMNS) - 1


class GreyUnusable(PlainCells):
    """Colour follows the entry; a cell too narrow for its text tells it in a tip."""

    def text(self, index: Index) -> str:
        """The cell on one line."""
        return one_line(str(index.data()))

    def role(self, index: Index) -> str:
        """Ready is green, a reason is amber, the rest of an unusable row is quiet."""
        usable = index.data(ENTRY_ROLE).is_servable
        if index.column() == _STATUS:
            return "good" if usable else "warn"
        return "ink" if usable else "mute"

    def is_right(self, index: Index) -> bool:
        """Figures."""
        return COLUMNS[index.column()].is_number

    def helpEvent(self, event: QHelpEvent, view: QAbstractItemView, option: QStyleOptionViewItem, index: Index) -> bool:
        """The whole text of a cell that is too narrow for it."""
        text = self.text(index)
        is_cut = option.fontMetrics.horizontalAdvance(text) > option.rect.width() - 2 * S
        QToolTip.showText(event.globalPos(), plain_tip(text) if is_cut else "", view)
        return True
