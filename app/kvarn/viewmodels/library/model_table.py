"""The library as a sortable, filterable table: sorting and filtering stay in Python lists, not per-cell callbacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, Qt

from kvarn.domain.library.model_entry import ModelEntry
from kvarn.domain.quantity_text import ABSENT, bytes_text, count_text
from kvarn.viewmodels.library.entry_text import architecture, quantisation, source_text, status_text

Index = QModelIndex | QPersistentModelIndex
_ROOT = QModelIndex()
_RIGHT = int(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
_LEFT = int(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)


class _Column:
    """One column: heading, what it shows, what it sorts by."""

    def __init__(self, heading: str, text: Callable[[ModelEntry], str], key: Callable[[ModelEntry], Any]) -> None:
        self.heading, self.text, self.key = heading, text, key

    @property
    def is_number(self) -> bool:
        return self.heading in {"Size", "Context"}


def _context(entry: ModelEntry) -> int | None:
    return entry.facts.context_train if entry.facts else None


COLUMNS = (
    _Column("Model", lambda e: e.title, lambda e: e.title.casefold()),
    _Column("Architecture", lambda e: architecture(e) or ABSENT, architecture),
    _Column("Size", lambda e: bytes_text(e.file_bytes), lambda e: e.file_bytes),
    _Column("Weights", lambda e: quantisation(e) or ABSENT, quantisation),
    _Column("Context", lambda e: count_text(_context(e)), lambda e: _context(e) or 0),
    _Column("Found in", lambda e: source_text(e.source), lambda e: e.source.value),
    _Column("Status", status_text, lambda e: (not e.is_servable, status_text(e).casefold())),
)
ENTRY_ROLE = Qt.ItemDataRole.UserRole


class ModelTable(QAbstractTableModel):
    """Rows are models; unusable ones are disabled rows whose tooltip is the reason."""

    def __init__(self, parent: Any = None) -> None:
        super().__init__(parent)
        self._all: tuple[ModelEntry, ...] = ()
        self._rows: list[ModelEntry] = []
        self._words: list[str] = []
        self._column = 0
        self._descending = False

    def set_entries(self, entries: tuple[ModelEntry, ...]) -> None:
        """Show another listing."""
        if entries != self._all:
            self._all = entries
            self._rebuild()

    def set_filter(self, text: str) -> None:
        """Keep the rows in which every word occurs somewhere."""
        words = text.casefold().split()
        if words != self._words:
            self._words = words
            self._rebuild()

    def entry_at(self, row: int) -> ModelEntry | None:
        """The model shown in that row."""
        return self._rows[row] if 0 <= row < len(self._rows) else None

    def row_of(self, model_id: str) -> int | None:
        """Where a model is shown, None when it is filtered out or gone."""
        return next((row for row, entry in enumerate(self._rows) if entry.id == model_id), None)

    def rowCount(self, parent: Index = _ROOT) -> int:
        """Qt: number of rows."""
        return 0 if parent.isValid() else len(self._rows)

    def columnCount(self, parent: Index = _ROOT) -> int:
        """Qt: number of columns."""
        return 0 if parent.isValid() else len(COLUMNS)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Qt: headings."""
        if orientation is not Qt.Orientation.Horizontal or not 0 <= section < len(COLUMNS):
            return None
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _RIGHT if COLUMNS[section].is_number else _LEFT
        return COLUMNS[section].heading if role == Qt.ItemDataRole.DisplayRole else None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Qt: one cell."""
        entry = self.entry_at(index.row()) if index.isValid() else None
        if entry is None:
            return None
        column = COLUMNS[index.column()]
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.AccessibleTextRole):
            return column.text(entry)
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _RIGHT if column.is_number else _LEFT
        return entry if role == ENTRY_ROLE else None

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        """Qt: order the rows by one column; equal ones by title."""
        if 0 <= column < len(COLUMNS):
            self._column, self._descending = column, order is Qt.SortOrder.DescendingOrder
            self._rebuild()

    def _rebuild(self) -> None:
        self.beginResetModel()
        kept = [entry for entry in self._all if self._matches(entry)]
        kept.sort(key=COLUMNS[0].key)
        kept.sort(key=COLUMNS[self._column].key, reverse=self._descending)
        self._rows = kept
        self.endResetModel()

    def _matches(self, entry: ModelEntry) -> bool:
        if not self._words:
            return True
        text = "\n".join((*(column.text(entry) for column in COLUMNS), str(entry.path))).casefold()
        return all(word in text for word in self._words)
