"""Rows of the library: unusable models are greyed, their reason is told in the warning colour."""

from __future__ import annotations

from PySide6.QtCore import QModelIndex, QPersistentModelIndex
from PySide6.QtGui import QColor, QPalette
from PySide6.QtWidgets import QStyledItemDelegate, QStyleOptionViewItem

from kvarn.viewmodels.library.model_table import COLUMNS, ENTRY_ROLE
from kvarn.views.theme import theme
from kvarn.views.widgets.labels import one_line

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
