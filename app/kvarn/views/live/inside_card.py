"""Inside the engine: a table of slots, and a row for each thing the engine tells of itself."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QGridLayout, QScrollArea, QSizePolicy, QVBoxLayout, QWidget

from kvarn.domain.live.live_state import LiveState
from kvarn.viewmodels.live.inside import SLOT_COLUMNS, InsideRow, inside_rows, slot_rows
from kvarn.views.theme import XS, M, S
from kvarn.views.widgets.hairline_table import HairlineTable
from kvarn.views.widgets.labels import ElidedLabel, PlainLabel
from kvarn.views.widgets.share_bar import ShareBar

_MOST_SLOTS = 3
"""Rows of the slot table in sight; the others scroll."""
_MOST_LINES, _LEAST_LINES = 15, 6
"""Height of the card in lines of text: what is more scrolls, and the charts above keep their room."""


class InsideCard(QScrollArea):
    """`show_live(None, why)` shows the sentence instead. Rows are kept and rewritten: nothing flickers."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Inside the engine")
        self._why = PlainLabel("", "mute", wrap=True)
        self.slots = HairlineTable(SLOT_COLUMNS, "Slots")
        self.slots.fit_columns()
        self._grid = QGridLayout()
        self._grid.setHorizontalSpacing(M)
        self._grid.setVerticalSpacing(XS)
        self._grid.setColumnStretch(3, 1)
        self._layout = QVBoxLayout()
        self._content_height = 0
        self._rows: list[tuple[PlainLabel, ShareBar, ElidedLabel, ElidedLabel]] = []
        self._arrange()
        self.slots.horizontalScrollBar().rangeChanged.connect(self._fit_slots)

    def sizeHint(self) -> QSize:
        """All there is, up to the most lines."""
        return self._hint(_MOST_LINES)

    def minimumSizeHint(self) -> QSize:
        """Wide enough for every row, high enough to scroll in."""
        return QSize(self._layout.totalMinimumSize().width(), self._hint(_LEAST_LINES).height())

    def show_live(self, live: LiveState | None, why: str) -> None:
        """Show the newest state, or why there is none."""
        self._why.setText(why)
        self._why.setVisible(live is None)
        self.slots.setVisible(live is not None)
        self.slots.set_rows(slot_rows(live) if live else [])
        self._show_rows(inside_rows(live) if live else ())
        self._fit_slots()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Ask for the height this width takes."""
        super().resizeEvent(event)
        self._fit_slots()

    def _fit_slots(self) -> None:
        """A bar under columns that do not fit takes no row's place."""
        shown = min(max(len(self.slots.text_model.rows), 1), _MOST_SLOTS)
        line = self.slots.verticalHeader().defaultSectionSize()
        head = self.slots.horizontalHeader().sizeHint().height()
        bar = self.slots.horizontalScrollBar()
        room = bar.sizeHint().height() if bar.maximum() > bar.minimum() else 0
        self.slots.setFixedHeight(head + shown * line + 2 + room)
        if (height := self._height_of_all()) != self._content_height:
            self._content_height = height
            self.updateGeometry()

    def _height_of_all(self) -> int:
        """Of everything shown; a wrapped sentence needs less where there is more width."""
        if self._layout.hasHeightForWidth():
            return self._layout.totalHeightForWidth(self.viewport().width())
        return self._layout.totalSizeHint().height()

    def _show_rows(self, rows: tuple[InsideRow, ...]) -> None:
        while len(self._rows) < len(rows):
            self._add_row()
        for number, widgets in enumerate(self._rows):
            for widget in widgets:
                widget.setVisible(number < len(rows))
        for row, (label, bar, value, detail) in zip(rows, self._rows, strict=False):
            label.setText(row.label)
            value.setText(row.value)
            detail.setText(row.detail)
            bar.show_shares([(part.share, part.colour) for part in row.shares], row.columns)
            bar.setAccessibleName(row.label)
            bar.setAccessibleDescription(f"{row.value}. {row.detail}")
            bar.setToolTip(", ".join(f"{part.text} {part.share:.0%}" for part in row.shares))

    def _add_row(self) -> None:
        widgets = (PlainLabel("", "mute"), ShareBar(), ElidedLabel(), ElidedLabel("", "caption"))
        for column, widget in enumerate(widgets):
            self._grid.addWidget(widget, len(self._rows), column, Qt.AlignmentFlag.AlignVCenter)
        self._rows.append(widgets)

    def _hint(self, lines: int) -> QSize:
        most = lines * self.fontMetrics().lineSpacing()
        return QSize(self._layout.totalSizeHint().width(), min(self._height_of_all(), most))

    def _arrange(self) -> None:
        body = QWidget()
        body.setLayout(self._layout)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.setSpacing(S)
        self._layout.addWidget(self._why)
        self._layout.addWidget(self.slots)
        self._layout.addLayout(self._grid)
        self._layout.addStretch(1)
        self.setWidget(body)
        body.setAutoFillBackground(False)
        self.viewport().setAutoFillBackground(False)
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
