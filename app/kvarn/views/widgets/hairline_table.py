"""A quiet table of texts: hairlines, right-aligned figures, copy with Ctrl+C. Cells are always plain text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, Qt
from PySide6.QtGui import QBrush, QColor, QGuiApplication, QKeyEvent, QKeySequence
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableView, QWidget

from kvarn.views.theme import theme
from kvarn.views.widgets.labels import one_line, plain_tip

_Index = QModelIndex | QPersistentModelIndex
_NOWHERE = QModelIndex()
_TIP_FROM = 24


class TextTableModel(QAbstractTableModel):
    """Rows of strings under `columns`; a leading `<` in a column title means left-aligned."""

    def __init__(self, columns: Sequence[str]) -> None:
        super().__init__()
        self._titles: tuple[str, ...] = ()
        self.columns: tuple[str, ...] = ()
        self._left: tuple[bool, ...] = ()
        self.rows: list[tuple[str, ...]] = []
        self._roles: dict[tuple[int, int], str] = {}
        self.set_columns(columns)

    def set_columns(self, columns: Sequence[str]) -> None:
        """Name the columns anew; the rows go."""
        if tuple(columns) == self._titles:
            return
        self.beginResetModel()
        self._titles = tuple(columns)
        self.columns = tuple(title.lstrip("<") for title in columns)
        self._left = tuple(title.startswith("<") for title in columns)
        self.rows, self._roles = [], {}
        self.endResetModel()

    def set_rows(self, rows: Sequence[tuple[str, ...]], roles: dict[tuple[int, int], str] | None = None) -> None:
        """Replace all rows. `roles` colours single cells: (row, column) -> good, warn, bad or mute."""
        if list(rows) == self.rows and (roles or {}) == self._roles:
            return
        if len(rows) == len(self.rows) and rows:
            # The same shape: who has selected a cell, or listens to one, keeps the place.
            self.rows, self._roles = list(rows), roles or {}
            self.dataChanged.emit(self.index(0, 0), self.index(len(rows) - 1, len(self.columns) - 1))
            return
        self.beginResetModel()
        self.rows, self._roles = list(rows), roles or {}
        self.endResetModel()

    @property
    def ends_in_text(self) -> bool:
        """Whether the last column is left-aligned."""
        return bool(self._left) and self._left[-1]

    def rowCount(self, parent: _Index = _NOWHERE) -> int:
        """Rows of the table; a cell has none."""
        return 0 if parent.isValid() else len(self.rows)

    def columnCount(self, parent: _Index = _NOWHERE) -> int:
        """Columns of the table; a cell has none."""
        return 0 if parent.isValid() else len(self.columns)

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Text, alignment, colour and tip of one cell."""
        text = self.rows[index.row()][index.column()]
        if role == Qt.ItemDataRole.DisplayRole:
            return one_line(text)
        if role == Qt.ItemDataRole.ToolTipRole:
            return plain_tip(text) if len(text) > _TIP_FROM else None
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return self._alignment(index.column())
        if role == Qt.ItemDataRole.ForegroundRole and (index.row(), index.column()) in self._roles:
            return QBrush(QColor(getattr(theme().palette, self._roles[index.row(), index.column()])))
        return None

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Column titles, aligned like their cells."""
        if orientation is Qt.Orientation.Vertical:
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            return self.columns[section]
        return self._alignment(section) if role == Qt.ItemDataRole.TextAlignmentRole else None

    def _alignment(self, column: int) -> Qt.AlignmentFlag:
        side = Qt.AlignmentFlag.AlignLeft if self._left[column] else Qt.AlignmentFlag.AlignRight
        return side | Qt.AlignmentFlag.AlignVCenter


class HairlineTable(QTableView):
    """Shows a `TextTableModel`; the last column takes what space is left."""

    def __init__(self, columns: Sequence[str], name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.text_model = TextTableModel(columns)
        self.text_model.setParent(self)
        self.setModel(self.text_model)
        self.setAccessibleName(name)
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setTabKeyNavigation(False)
        self.verticalHeader().hide()
        self.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        self.verticalHeader().setDefaultSectionSize(self.fontMetrics().height() + 10)
        header = self.horizontalHeader()
        header.setHighlightSections(False)
        header.setSectionResizeMode(QHeaderView.ResizeMode.Stretch)
        header.setMinimumSectionSize(36)

    def fit_columns(self) -> None:
        """Columns as wide as their texts; a last one of text takes the rest, one of figures stays by the others."""
        header = self.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setStretchLastSection(self.text_model.ends_in_text)

    def set_columns(self, columns: Sequence[str]) -> None:
        """See `TextTableModel.set_columns`."""
        self.text_model.set_columns(columns)

    def set_rows(self, rows: Sequence[tuple[str, ...]], roles: dict[tuple[int, int], str] | None = None) -> None:
        """See `TextTableModel.set_rows`."""
        self.text_model.set_rows(rows, roles)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Ctrl+C copies the selected rows as tab-separated text."""
        if event.matches(QKeySequence.StandardKey.Copy):
            chosen = sorted({index.row() for index in self.selectedIndexes()})
            lines = ["\t".join(map(one_line, self.text_model.rows[row])) for row in chosen]
            QGuiApplication.clipboard().setText("\n".join(lines))
        else:
            super().keyPressEvent(event)
