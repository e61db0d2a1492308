"""The engine's log and the console's own, live: follow at the bottom, filter, search, copy."""

from __future__ import annotations

from PySide6.QtCore import QModelIndex, Qt, QUrl
from PySide6.QtGui import QDesktopServices, QGuiApplication, QHideEvent, QKeySequence, QShortcut, QShowEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QCheckBox,
    QComboBox,
    QHBoxLayout,
    QHeaderView,
    QLineEdit,
    QPushButton,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from kvarn.viewmodels.live.log_vm import LogVm
from kvarn.views.live.log_cells import LogCells
from kvarn.views.theme import XL, L, M, S, mono_font
from kvarn.views.widgets.card import Card
from kvarn.views.widgets.empty_state import EmptyState
from kvarn.views.widgets.labels import PlainLabel, one_line
from kvarn.views.widgets.quiet_wheel import quiet_wheel

_LEVELS = (
    ("All levels", frozenset[str]()),
    ("Warnings and errors", frozenset({"warning", "error"})),
    ("Errors", frozenset({"error"})),
)
_SOURCES = (
    ("All sources", frozenset[str]()),
    ("Engine", frozenset({"engine"})),
    ("Kvarn", frozenset({"kvarn"})),
)
_MOST_COPIED = 20_000


class LogsPage(QWidget):
    """Follows the end only while the end is in sight."""

    def __init__(self, vm: LogVm, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("role", "page")
        self._vm = vm
        self._is_adjusting = False
        self.table = self._make_table()
        self.level = _combo("Level", [text for text, _levels in _LEVELS])
        self.source = _combo("Source", [text for text, _sources in _SOURCES])
        self.search = QLineEdit()
        self.search.setPlaceholderText("Search  (Ctrl+F)")
        self.search.setAccessibleName("Search the log")
        self.search.setClearButtonEnabled(True)
        self.matches = PlainLabel("", "mute")
        self.follow_button = QCheckBox("Follow")
        self.follow_button.setChecked(True)
        self.copy_button = QPushButton("Copy")
        self.folder_button = QPushButton("Open log folder")
        self.line = PlainLabel("", wrap=True)
        self.line.setFont(mono_font())
        self.line.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.note = PlainLabel("", "caption")
        self.empty = EmptyState("Nothing logged yet", "What the engine says appears here as soon as it starts.")
        self._arrange()
        self._connect()
        self._show_state()

    @property
    def is_following(self) -> bool:
        """True while new lines scroll into sight."""
        return self.follow_button.isChecked()

    def start_search(self) -> None:
        """Ctrl+F: put the keyboard into the search field."""
        self.search.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.search.selectAll()

    def showEvent(self, event: QShowEvent) -> None:
        """Begin to pull."""
        super().showEvent(event)
        self._vm.set_visible(True)
        self._show_state()
        if self.is_following:
            self.table.scrollToBottom()

    def hideEvent(self, event: QHideEvent) -> None:
        """A hidden page pulls nothing."""
        super().hideEvent(event)
        self._vm.set_visible(False)

    def _make_table(self) -> QTableView:
        table = QTableView()
        table.setModel(self._vm.rows)
        table.setItemDelegate(LogCells(table))
        table.setProperty("role", "log")
        table.setFont(mono_font())
        table.setAccessibleName("Log lines")
        table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        table.setShowGrid(False)
        table.setWordWrap(False)
        table.setTabKeyNavigation(False)
        table.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        # The scroll bar then counts rows.
        table.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerItem)
        rows = table.verticalHeader()
        rows.hide()
        rows.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        rows.setMinimumSectionSize(1)
        rows.setDefaultSectionSize(table.fontMetrics().height() + 4)
        columns = table.horizontalHeader()
        columns.hide()
        columns.setStretchLastSection(True)
        width = table.fontMetrics().horizontalAdvance("0")
        columns.resizeSection(0, width * 13 + XL)
        columns.resizeSection(1, width * 6 + XL)
        return table

    def _arrange(self) -> None:
        head = QHBoxLayout()
        head.setSpacing(S)
        head.addWidget(PlainLabel("Logs", "headline"))
        head.addStretch(1)
        for control in (self.matches, self.search, self.level, self.source):
            head.addWidget(control)
        for button in (self.follow_button, self.copy_button, self.folder_button):
            head.addWidget(button)
        self.search.setMinimumWidth(200)
        sheet = Card()
        sheet.body.setContentsMargins(S, S, S, S)
        sheet.body.addWidget(self.empty, 1)
        sheet.body.addWidget(self.table, 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(L, M, L, M)
        layout.setSpacing(M)
        layout.addLayout(head)
        layout.addWidget(sheet, 1)
        layout.addWidget(self.line)
        layout.addWidget(self.note)

    def _connect(self) -> None:
        self._vm.appended.connect(self._on_appended)
        self._vm.changed.connect(self._show_state)
        self.level.activated.connect(self._on_filter)
        self.source.activated.connect(self._on_filter)
        self.search.textChanged.connect(self._on_search)
        self.search.returnPressed.connect(lambda: self.find_next(1))
        self.follow_button.toggled.connect(lambda on: self.table.scrollToBottom() if on else None)
        self.copy_button.clicked.connect(self.copy)
        self.folder_button.clicked.connect(self._open_folder)
        self.table.verticalScrollBar().valueChanged.connect(self._on_scrolled)
        self.table.verticalScrollBar().rangeChanged.connect(self._on_range)
        self.table.selectionModel().currentRowChanged.connect(self._on_row)
        for key, act in (
            (QKeySequence(QKeySequence.StandardKey.Find), self.start_search),
            (QKeySequence(QKeySequence.StandardKey.Copy), self.copy),
            (QKeySequence(QKeySequence.StandardKey.FindNext), lambda: self.find_next(1)),
            (QKeySequence(QKeySequence.StandardKey.FindPrevious), lambda: self.find_next(-1)),
        ):
            shortcut = QShortcut(key, self)
            shortcut.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
            shortcut.activated.connect(act)

    def find_next(self, step: int) -> None:
        """Go to the next or previous line that contains the search text."""
        here = self.table.currentIndex().row()
        start = here + step if here >= 0 else (0 if step > 0 else -1)
        row = self._vm.find(self.search.text(), start, step)
        if row is not None:
            self.follow_button.setChecked(False)
            self.table.selectRow(row)
            self.table.scrollTo(self._vm.rows.index(row, 0), QAbstractItemView.ScrollHint.PositionAtCenter)

    def copy(self) -> None:
        """Copy the chosen lines, or all shown when fewer than two are chosen."""
        rows = sorted({index.row() for index in self.table.selectionModel().selectedRows()})
        lines = [self._vm.rows.lines[row] for row in rows] if rows else self._vm.rows.lines[-_MOST_COPIED:]
        QGuiApplication.clipboard().setText("\n".join(self._vm.rows.line_text(line) for line in lines))

    def _on_appended(self, dropped: int) -> None:
        self._is_adjusting = True
        if self.is_following:
            self.table.scrollToBottom()
        elif dropped:
            # Rows that left at the top must not make the text creep under the reader's eyes.
            bar = self.table.verticalScrollBar()
            bar.setValue(max(0, bar.value() - dropped))
        self._is_adjusting = False
        self._show_state()

    def _on_scrolled(self, value: int) -> None:
        """Scrolling up stops following, reaching the end takes it up again."""
        if not self._is_adjusting:
            self.follow_button.setChecked(value >= self.table.verticalScrollBar().maximum())

    def _on_range(self, _least: int, most: int) -> None:
        """The end moved, by new rows or by another height: stay with it while following."""
        if self.is_following:
            self.table.verticalScrollBar().setValue(most)

    def _on_filter(self) -> None:
        self._vm.set_filter(_LEVELS[self.level.currentIndex()][1], _SOURCES[self.source.currentIndex()][1])
        self.table.scrollToBottom()

    def _on_search(self, text: str) -> None:
        delegate = self.table.itemDelegate()
        assert isinstance(delegate, LogCells)
        delegate.needle = text
        self.table.viewport().update()
        count = self._vm.count_matches(text)
        self.matches.setText(f"{count:,} lines" if text else "")

    def _on_row(self, current: QModelIndex, _previous: QModelIndex) -> None:
        row = current.row()
        self.line.setText(self._vm.rows.lines[row].text[:2000] if 0 <= row < len(self._vm.rows.lines) else "")

    def _show_state(self) -> None:
        has_lines = bool(self._vm.rows.lines)
        self.table.setVisible(has_lines)
        self.empty.setVisible(not has_lines)
        self.line.setVisible(bool(self.line.text()))
        skipped = self._vm.skipped
        self.note.setText(
            f"{skipped:,} earlier lines are only in {one_line(str(self._vm.log_path))}" if skipped else ""
        )
        self.note.setVisible(bool(skipped))

    def _open_folder(self) -> None:
        QDesktopServices.openUrl(QUrl.fromLocalFile(str(self._vm.log_path.parent)))


def _combo(name: str, texts: list[str]) -> QComboBox:
    combo = QComboBox()
    combo.addItems(texts)
    combo.setAccessibleName(name)
    quiet_wheel(combo)
    return combo
