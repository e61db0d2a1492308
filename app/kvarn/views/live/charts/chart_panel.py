"""One chart with its head: title, unit, reading under the cursor, table view and export."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QHBoxLayout, QMenu, QSizePolicy, QStackedWidget, QToolButton, QVBoxLayout, QWidget

from kvarn.viewmodels.live.chart_frame import ChartFrame
from kvarn.viewmodels.live.chart_sheet import Column, table_rows
from kvarn.views.live.charts.end_labels import EndLabel, EndLabels
from kvarn.views.live.charts.time_plot import TimePlot
from kvarn.views.theme import S, theme
from kvarn.views.widgets.hairline_table import HairlineTable
from kvarn.views.widgets.labels import ElidedLabel, PlainLabel


class ChartPanel(QWidget):
    """What the numbers are comes from three functions of a frame, so that a panel decides nothing.

    `end_labels(frame)` names the curves, `reading(frame, x)` is the sentence under the cursor,
    `caption(frame)` the reason for an empty plot; `sheet` holds the columns of table and export.
    """

    export_png = Signal(object)
    export_csv = Signal(object)

    def __init__(
        self,
        title: str,
        unit: str,
        plot: TimePlot,
        *,
        end_labels: Callable[[ChartFrame], Sequence[EndLabel]],
        reading: Callable[[ChartFrame, float | None], str],
        caption: Callable[[ChartFrame], str],
        sheet: Sequence[Column] | Callable[[ChartFrame], Sequence[Column]],
        height: int,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.plot = plot
        self._end_labels, self._reading, self._caption = end_labels, reading, caption
        self._sheet = sheet
        self._frame: ChartFrame | None = None
        self._cursor_s: float | None = None
        self._title, self._unit = PlainLabel(title, "title"), ElidedLabel(unit, "caption")
        self._readout = ElidedLabel("", "caption")
        self._labels = EndLabels()
        self.table = HairlineTable(("<time",), f"{title}, table")
        self._views = QStackedWidget()
        self._table_button = _tool("Show as table")
        self._export_button = _tool("Export this chart")
        self._arrange(height)
        theme().changed.connect(self._draw_icons)
        self._draw_icons()
        self.set_title(title, unit)

    @property
    def title(self) -> str:
        """The chart's name, as in the head."""
        return self._title.text()

    def set_title(self, title: str, unit: str) -> None:
        """Rename the chart, e.g. when the engine runs on a GPU."""
        self._title.setText(title)
        self._unit.setText(unit)
        self.plot.setAccessibleName(f"{title}, chart")
        self._table_button.setAccessibleName(f"{title} as table")
        self._export_button.setAccessibleName(f"Export {title}")

    def sheet_of(self, frame: ChartFrame) -> Sequence[Column]:
        """The columns of this chart's export."""
        return self._sheet(frame) if callable(self._sheet) else self._sheet

    def show_frame(self, frame: ChartFrame) -> None:
        """Draw what is visible: the plot or its table, never both."""
        self._frame = frame
        if self._views.currentIndex() == 0:
            self.plot.show_frame(frame)
            self.plot.set_caption(self._caption(frame))
            self._labels.set_labels(self._end_labels(frame), self.plot.bottom_px)
        else:
            sheet = self.sheet_of(frame)
            self.table.set_columns(("<time", *(c.heading for c in sheet)))
            self.table.set_rows(table_rows(frame, sheet))
        self._show_reading()

    def show_cursor(self, x_s: float | None) -> None:
        """The linked cursor moved."""
        self._cursor_s = x_s
        self.plot.show_cursor(x_s)
        self._show_reading()

    def set_table_visible(self, visible: bool) -> None:
        """Swap the plot for its numbers and back."""
        self._views.setCurrentIndex(1 if visible else 0)
        self._table_button.setChecked(visible)
        self._draw_icons()
        if self._frame is not None:
            self.show_frame(self._frame)

    def _show_reading(self) -> None:
        if self._frame is not None:
            self._readout.setText(self._reading(self._frame, self._cursor_s))

    def _arrange(self, height: int) -> None:
        head = QHBoxLayout()
        head.setSpacing(S)
        head.addWidget(self._title)
        head.addWidget(self._unit)
        self._readout.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        head.addWidget(self._readout, 1)
        head.addWidget(self._table_button)
        head.addWidget(self._export_button)
        drawn = QWidget()
        row = QHBoxLayout(drawn)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(0)
        row.addWidget(self.plot, 1)
        row.addWidget(self._labels)
        self._views.addWidget(drawn)
        self._views.addWidget(self.table)
        self._views.setMinimumHeight(height)
        # A plot would like 480 pixels; what it gets is decided by its neighbours.
        self._views.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Ignored)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(2)
        layout.addLayout(head)
        layout.addWidget(self._views, 1)
        self._table_button.setCheckable(True)
        self._table_button.toggled.connect(self.set_table_visible)
        self._export_button.setMenu(self._export_menu())
        self._export_button.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)

    def _export_menu(self) -> QMenu:
        menu = QMenu(self)
        for text, signal in (("Picture (PNG)…", self.export_png), ("Numbers (CSV)…", self.export_csv)):
            action = QAction(text, menu)
            action.triggered.connect(lambda _checked=False, s=signal: s.emit(self))
            menu.addAction(action)
        return menu

    def _draw_icons(self) -> None:
        mute = theme().palette.mute
        self._table_button.setIcon(theme().icon("chart" if self._views.currentIndex() else "table", mute))
        self._export_button.setIcon(theme().icon("export", mute))


def _tool(tip: str) -> QToolButton:
    button = QToolButton()
    button.setProperty("role", "icon")
    button.setToolTip(tip)
    button.setIconSize(QSize(14, 14))
    button.setFixedSize(QSize(24, 20))
    return button
