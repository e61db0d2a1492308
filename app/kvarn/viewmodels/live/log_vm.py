"""The log page's rows: pulled in batches, bounded, filtered; the window never waits for a talkative engine."""

from __future__ import annotations

import datetime
import functools
from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt, QTimer, Signal

from kvarn.services.live.log_store import LogLine, LogStore

REFRESH_MS = 100
"""At most ten batches a second."""
MOST_ROWS = 20_000
"""Rows kept in the page; the rest is in the file."""
MOST_PER_TICK = 4_000
"""Lines taken in one batch: about 10 ms of work. A longer backlog waits, or is skipped to the newest."""
LINE_ROLE = Qt.ItemDataRole.UserRole

Index = QModelIndex | QPersistentModelIndex
_ROOT = QModelIndex()
_COLUMNS = ("Time", "Source", "Text")
_SHOWN_CHARACTERS = 500
"""A cell shows the beginning of a line; the detail strip shows all of it."""


class LogRows(QAbstractTableModel):
    """Time, source and text of the lines that pass the filter."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.lines: list[LogLine] = []

    def append(self, lines: list[LogLine]) -> int:
        """Add lines at the end; returns how many old rows had to go at the top."""
        surplus = max(0, len(self.lines) + len(lines) - MOST_ROWS)
        dropped = min(surplus, len(self.lines))
        if dropped:
            self.beginRemoveRows(_ROOT, 0, dropped - 1)
            del self.lines[:dropped]
            self.endRemoveRows()
        added = lines[-MOST_ROWS:]
        if added:
            self.beginInsertRows(_ROOT, len(self.lines), len(self.lines) + len(added) - 1)
            self.lines.extend(added)
            self.endInsertRows()
        return dropped

    def replace(self, lines: list[LogLine]) -> None:
        """Show these lines instead."""
        self.beginResetModel()
        self.lines = lines[-MOST_ROWS:]
        self.endResetModel()

    def rowCount(self, parent: Index = _ROOT) -> int:
        """Qt: number of rows."""
        return 0 if parent.isValid() else len(self.lines)

    def columnCount(self, parent: Index = _ROOT) -> int:
        """Qt: number of columns."""
        return 0 if parent.isValid() else len(_COLUMNS)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Qt: headings."""
        if orientation is Qt.Orientation.Horizontal and role == Qt.ItemDataRole.DisplayRole:
            return _COLUMNS[section]
        return None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Qt: one cell."""
        line = self.lines[index.row()]
        if role == Qt.ItemDataRole.DisplayRole:
            if index.column() == 0:
                return self.time_text(line)
            return line.source if index.column() == 1 else line.text[:_SHOWN_CHARACTERS]
        return line if role == LINE_ROLE else None

    def time_text(self, line: LogLine) -> str:
        """Wall time to the millisecond."""
        seconds, fraction = divmod(line.wall_s, 1)
        return f"{_clock_text(int(seconds))}.{int(fraction * 1000):03d}"

    def line_text(self, line: LogLine) -> str:
        """One line as it is copied."""
        return f"{self.time_text(line)} {line.source} {line.text}"


@functools.lru_cache(maxsize=256)
def _clock_text(wall_s: int) -> str:
    return datetime.datetime.fromtimestamp(wall_s).strftime("%H:%M:%S")


class LogVm(QObject):
    """Pulls from the log store while its page is visible."""

    appended = Signal(int)
    """Rows came; the number tells how many old ones left at the top."""
    changed = Signal()
    """Filter, search result or the count of skipped lines changed."""

    def __init__(self, store: LogStore, *, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._store = store
        self.rows = LogRows(self)
        self.levels: frozenset[str] = frozenset()
        """Levels to show; empty means all."""
        self.sources: frozenset[str] = frozenset()
        self.skipped = 0
        """Lines that left the store before the page could take them; they are in the file."""
        self._last_seq = 0
        self._timer = QTimer(self, interval=REFRESH_MS)
        self._timer.timeout.connect(self.pull)

    @property
    def log_path(self) -> Any:
        """The log file on disk."""
        return self._store.path

    def set_visible(self, visible: bool) -> None:
        """A hidden page costs nothing and catches up when it is shown."""
        if visible:
            self.pull()
            self._timer.start()
        else:
            self._timer.stop()

    def pull(self) -> None:
        """Take the next batch from the store."""
        batch, dropped = self._store.since(self._last_seq, MOST_PER_TICK)
        if not batch:
            return
        self._last_seq = batch[-1].seq
        self.skipped += dropped
        self.appended.emit(self.rows.append([line for line in batch if self._shows(line)]))
        if dropped:
            self.changed.emit()

    def set_filter(self, levels: frozenset[str], sources: frozenset[str]) -> None:
        """Show only these levels and sources; an empty set means all. Reads the ring again."""
        if (levels, sources) == (self.levels, self.sources):
            return
        self.levels, self.sources = levels, sources
        self.skipped, self._last_seq = 0, 0
        self.rows.replace([])
        self.pull()
        self.changed.emit()

    def clear(self) -> None:
        """Empty the page; the file keeps everything."""
        self.rows.replace([])
        self.changed.emit()

    def find(self, text: str, start_row: int, step: int = 1) -> int | None:
        """The next row from `start_row` on that contains `text`, wrapping round; case does not matter."""
        needle, count = text.casefold(), len(self.rows.lines)
        if not needle:
            return None
        for way in range(count):
            row = (start_row + step * way) % count
            if needle in self.rows.lines[row].text.casefold():
                return row
        return None

    def count_matches(self, text: str) -> int:
        """Rows that contain `text`."""
        needle = text.casefold()
        return sum(needle in line.text.casefold() for line in self.rows.lines) if needle else 0

    def close(self) -> None:
        """Stop pulling."""
        self._timer.stop()

    def _shows(self, line: LogLine) -> bool:
        return (not self.levels or line.level in self.levels) and (not self.sources or line.source in self.sources)
