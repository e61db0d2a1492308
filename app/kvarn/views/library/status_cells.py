"""Rows of the library: unusable models are greyed, their reason is told in the warning colour."""

from __future__ import annotations

from PySide6.QtCore import QModelIndex, QPersistentModelIndex
from PySide6.QtGui import QColor, QHelpEvent, QPalette
from PySide6.QtWidgets import QAbstractItemView, QStyledItemDelegate, QStyleOptionViewItem, QToolTip

from kvarn.viewmodels.library.model_table import COLUMNS, ENTRY_ROLE
from kvarn.views.theme import theme
from kvarn.views.widgets.labels import one_line, plain_tip

_STATUS = len(COLUMNS) - 1


class GreyUnusable(QStyledItemDelegate):
    """Colour follows the entry, text stays one plain line."""

    def initStyleOption(self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex) -> None:
        """Set the ink of one cell."""
        super().initStyleOption(option, index)
        option.text = one_line(option.text)
        entry = index.data(ENTRY_ROLE)
        colours = theme().palette
        if entry is None:
            return
        if index.column() == _STATUS:
            ink = colours.good if entry.is_servable else colours.warn
        else:
            ink = colours.ink if entry.is_servable else colours.mute
        for role in (QPalette.ColorRole.Text, QPalette.ColorRole.HighlightedText):
            option.palette.setColor(role, QColor(ink))

    def helpEvent(
        self,
        event: QHelpEvent,
        view: QAbstractItemView,
        option: QStyleOptionViewItem,
        index: QModelIndex | QPersistentModelIndex,
    ) -> bool:
        """The whole text of a cell that is too narrow for it."""
        text = str(index.data() or "")
        is_cut = option.fontMetrics.horizontalAdvance(one_line(text)) > option.rect.width() - 16
        QToolTip.showText(event.globalPos(), plain_tip(text) if is_cut else "", view)
        return True
