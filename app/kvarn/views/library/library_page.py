"""Every model on disk: which can be served, which cannot and why, and the facts of each."""

from __future__ import annotations

from PySide6.QtCore import QModelIndex, Qt, Signal
from PySide6.QtGui import QHideEvent, QKeySequence, QResizeEvent, QShortcut, QShowEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFileDialog,
    QHBoxLayout,
    QHeaderView,
    QLineEdit,
    QProgressBar,
    QPushButton,
    QSplitter,
    QStackedWidget,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from kvarn.domain.library.model_entry import ModelEntry
from kvarn.viewmodels.library.library_vm import LibraryVm
from kvarn.viewmodels.library.model_table import COLUMNS, ModelTable
from kvarn.views.library.model_details import ModelDetails
from kvarn.views.library.status_cells import GreyUnusable
from kvarn.views.theme import L, M, S
from kvarn.views.widgets.card import Card
from kvarn.views.widgets.empty_state import EmptyState
from kvarn.views.widgets.labels import PlainLabel

_WIDTHS = {"Model": 22, "Architecture": 14, "Size": 10, "Weights": 9, "Context": 10, "Found in": 13, "Status": 12}
"""In average characters, so that columns grow with the font."""
_GROWS = {"Model": 0.5, "Found in": 0.25}
"""Shares of what is left over; the rest is the status's, whose reasons are long."""


class _ModelView(QTableView):
    """Its columns share what is left over once, when it is first wide enough; afterwards they are the user's."""

    has_shared = False

    def resizeEvent(self, event: QResizeEvent) -> None:
        """See the class."""
        super().resizeEvent(event)
        header, character = self.horizontalHeader(), self.fontMetrics().averageCharWidth()
        spare = self.viewport().width() - sum(characters * character + L for characters in _WIDTHS.values())
        if self.has_shared or spare <= 0:
            return
        self.has_shared = True
        for section, column in enumerate(COLUMNS):
            header.resizeSection(section, header.sectionSize(section) + int(spare * _GROWS.get(column.heading, 0)))


class LibraryPage(QWidget):
    """`model_wanted` carries the id of the model to use on the Serve page."""

    model_wanted = Signal(object)

    def __init__(self, vm: LibraryVm, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("role", "page")
        self._vm = vm
        self._is_stale = True
        self.table_model = ModelTable(self)
        self.filter = QLineEdit()
        self.filter.setPlaceholderText("Filter by name, architecture, folder …")
        self.filter.setAccessibleName("Filter models")
        self.filter.setClearButtonEnabled(True)
        self.add_button = QPushButton("Add folder…")
        self.rescan_button = QPushButton("Rescan")
        self.progress = QProgressBar()
        self.progress.setRange(0, 0)
        self.progress.setTextVisible(False)
        self.progress.setAccessibleName("Scanning")
        self.count = PlainLabel("", "mute")
        self.table = self._make_table()
        self.details = ModelDetails()
        self.empty = EmptyState(
            "No models found",
            "Models from your folders, LM Studio, the Hugging Face cache, Ollama and llama.cpp appear here.",
            "Add folder…",
        )
        self._arrange()
        self._connect()

    def showEvent(self, event: QShowEvent) -> None:
        """Catch up with what happened while hidden."""
        super().showEvent(event)
        self.refresh()

    def hideEvent(self, event: QHideEvent) -> None:
        """A hidden page is only marked stale."""
        super().hideEvent(event)
        self._is_stale = True

    def refresh(self) -> None:
        """Show the newest listing; the chosen row stays chosen."""
        if not self.isVisible():
            self._is_stale = True
            return
        chosen = self._chosen()
        self.table_model.set_entries(self._vm.entries)
        self._choose(chosen.id if chosen else None)
        self._show_state()
        self._is_stale = False

    def _show_state(self) -> None:
        scanning, entries = self._vm.is_scanning, self._vm.entries
        usable = sum(entry.is_servable for entry in entries)
        shown, total = self.table_model.rowCount(), len(entries)
        kept = f"{shown:,} of {total:,} shown · " if shown != total else ""
        self.count.setText(f"{kept}{usable:,} ready, {total - usable:,} not usable" if total else "")
        self._show_progress(scanning)
        self.rescan_button.setText("Cancel" if scanning else "Rescan")
        self.stack.setCurrentWidget(self.empty if not entries and not scanning else self.split)

    def _show_progress(self, scanning: bool) -> None:
        listing = self._vm.listing
        self.progress.setVisible(scanning)
        self.progress.setRange(0, listing.files_found)
        self.progress.setValue(listing.files_read)
        if scanning and listing.files_found:
            self.count.setText(f"reading {listing.files_read:,} of {listing.files_found:,} files found so far")

    def _make_table(self) -> QTableView:
        table = _ModelView()
        table.setModel(self.table_model)
        table.setItemDelegate(GreyUnusable(table))
        table.setAccessibleName("Models")
        table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        table.setShowGrid(False)
        table.setWordWrap(False)
        table.setTabKeyNavigation(False)
        table.setSortingEnabled(True)
        table.verticalHeader().hide()
        table.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        table.verticalHeader().setDefaultSectionSize(table.fontMetrics().height() + M)
        header = table.horizontalHeader()
        header.setHighlightSections(False)
        header.setStretchLastSection(True)
        header.setSortIndicator(0, Qt.SortOrder.AscendingOrder)
        for section, column in enumerate(COLUMNS):
            header.resizeSection(section, _WIDTHS[column.heading] * table.fontMetrics().averageCharWidth() + L)
        return table

    def _arrange(self) -> None:
        head = QHBoxLayout()
        head.setSpacing(S)
        head.addWidget(PlainLabel("Library", "headline"))
        head.addWidget(self.count)
        head.addStretch(1)
        self.filter.setMinimumWidth(180)
        self.filter.setMaximumWidth(360)
        head.addWidget(self.filter, 2)
        head.addWidget(self.add_button)
        head.addWidget(self.rescan_button)
        sheet = Card()
        sheet.body.setContentsMargins(S, S, S, S)
        sheet.body.addWidget(self.table)
        self.split = QSplitter(Qt.Orientation.Horizontal)
        self.split.setHandleWidth(M)
        self.split.setChildrenCollapsible(False)
        self.split.addWidget(sheet)
        self.split.addWidget(self.details)
        self.split.setStretchFactor(0, 3)
        self.split.setStretchFactor(1, 1)
        self.split.setSizes([820, 320])
        self.stack = QStackedWidget()
        self.stack.addWidget(self.split)
        self.stack.addWidget(self.empty)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(L, M, L, M)
        layout.setSpacing(M)
        layout.addLayout(head)
        layout.addWidget(self.progress)
        layout.addWidget(self.stack, 1)

    def _connect(self) -> None:
        self._vm.changed.connect(self.refresh)
        self.filter.textChanged.connect(self._on_filter)
        self.add_button.clicked.connect(self._add_folder)
        self.empty.acted.connect(self._add_folder)
        self.rescan_button.clicked.connect(self._scan_or_cancel)
        self.table.selectionModel().currentRowChanged.connect(self._on_row)
        self.table.activated.connect(lambda _index: self._use(self._chosen()))
        self.details.use_clicked.connect(lambda: self._use(self._chosen()))
        find = QShortcut(QKeySequence.StandardKey.Find, self)
        find.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        find.activated.connect(self.filter.setFocus)

    def _scan_or_cancel(self) -> None:
        if self._vm.is_scanning:
            self._vm.cancel()
        else:
            self._vm.rescan()

    def _add_folder(self) -> None:
        folder = QFileDialog.getExistingDirectory(self, "Add a folder of models")
        if folder:
            self._vm.add_folder(folder)

    def _on_filter(self, text: str) -> None:
        chosen = self._chosen()
        self.table_model.set_filter(text)
        self._choose(chosen.id if chosen else None)
        self._show_state()

    def _choose(self, model_id: str | None) -> None:
        row = self.table_model.row_of(model_id) if model_id else None
        if row is None and self.table_model.rowCount():
            row = 0
        if row is not None:
            self.table.selectRow(row)
        self.details.show_entry(self._chosen())

    def _chosen(self) -> ModelEntry | None:
        return self.table_model.entry_at(self.table.currentIndex().row())

    def _on_row(self, current: QModelIndex, _previous: QModelIndex) -> None:
        self.details.show_entry(self.table_model.entry_at(current.row()))

    def _use(self, entry: ModelEntry | None) -> None:
        if entry is not None and entry.is_servable:
            self.model_wanted.emit(entry.id)
