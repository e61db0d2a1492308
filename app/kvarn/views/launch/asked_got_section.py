"""Each setting requested beside what the running engine reports."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QHeaderView, QVBoxLayout, QWidget

from kvarn.viewmodels.launch.asked_got_vm import AskedGotVm
from kvarn.views.theme import XS, sized_font
from kvarn.views.widgets.hairline_table import HairlineTable
from kvarn.views.widgets.labels import PlainLabel

_TONES = {True: "good", False: "bad", None: "mute"}
_FONT_SCALE = 0.9
"""As captions: byte counts of a large cache, and the sign before them, then fit beside the longest label."""
_SIGNS = {True: "✓ ", False: "≠ ", None: ""}


class AskedGotSection(QWidget):
    """Hidden until there is something to compare."""

    def __init__(self, vm: AskedGotVm, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._vm = vm
        self.table = HairlineTable(("<", "asked", "got"), "Asked and got")
        self.table.setProperty("role", "narrow")
        self.table.setFont(sized_font(_FONT_SCALE))
        self.table.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.table.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.table.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        header = self.table.horizontalHeader()
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(1, QHeaderView.ResizeMode.Fixed)
        self.problem = PlainLabel("", "warn", wrap=True)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(XS)
        layout.addWidget(PlainLabel("Asked / got", "caption"))
        layout.addWidget(self.problem)
        layout.addWidget(self.table)
        vm.changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        """Show the viewmodel's rows at full height."""
        rows = self._vm.rows
        texts = [(row.label, _short(row.asked), _SIGNS[row.agrees] + _short(row.got)) for row in rows]
        self.table.set_rows(texts, {(number, 2): _TONES[row.agrees] for number, row in enumerate(rows)})
        height = self.table.horizontalHeader().sizeHint().height()
        self.table.setFixedHeight(height + self.table.verticalHeader().defaultSectionSize() * len(rows) + 2)
        self.table.setVisible(bool(rows))
        self.problem.setText(self._vm.problem)
        self.problem.setVisible(bool(self._vm.problem))
        self.setVisible(bool(rows or self._vm.problem))
        self._share_width()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Share the new width."""
        super().resizeEvent(event)
        self._share_width()

    def _share_width(self) -> None:
        """Each value column as wide as its texts need; where that is too much, the longer one gives way to half."""
        header = self.table.horizontalHeader()
        asked, got = (max(self.table.sizeHintForColumn(n), header.sectionSizeHint(n)) for n in (1, 2))
        room = self.table.viewport().width() - header.sectionSize(0)
        header.resizeSection(1, min(asked, max(room - got, room // 2)))


def _short(value: str) -> str:
    """A file by its name: the narrow column would cut off just that."""
    return value.replace("\\", "/").rpartition("/")[2] or value
