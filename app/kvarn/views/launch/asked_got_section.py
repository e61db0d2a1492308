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
        for column in (0, 1):
            header.setSectionResizeMode(column, QHeaderView.ResizeMode.Fixed)
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
        """Figures stand whole, then labels; what is left goes to names, the longer of which gives way to half."""
        header, width = self.table.horizontalHeader(), self.table.viewport().width()
        asked_figures, got_figures = self._figures_width(1), self._figures_width(2)
        header.resizeSection(0, min(self.table.sizeHintForColumn(0), width - asked_figures - got_figures))
        room = width - header.sectionSize(0)
        asked, got = (max(self.table.sizeHintForColumn(n), header.sectionSizeHint(n)) for n in (1, 2))
        shared = min(asked, max(room - got, room // 2))
        header.resizeSection(1, min(max(shared, asked_figures), room - got_figures))

    def _figures_width(self, column: int) -> int:
        """Width of the column's longest figure: a name that is cut can be told, a figure cannot."""
        model = self.table.text_model
        rows = [number for number, row in enumerate(model.rows) if _is_figure(row[column])]
        return max((self.table.sizeHintForIndex(model.index(row, column)).width() for row in rows), default=0)


def _is_figure(text: str) -> bool:
    return text.lstrip("".join(_SIGNS.values())).replace(",", "").isdigit()


def _short(value: str) -> str:
    """A file by its name: the narrow column would cut off just that."""
    return value.replace("\\", "/").rpartition("/")[2] or value
