"""All charts under one toolbar: window, pause, export, and one cursor through all of them."""

from __future__ import annotations

from PySide6.QtCore import QBuffer, QIODevice, QSize, Qt
from PySide6.QtGui import QHideEvent, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QButtonGroup, QFileDialog, QHBoxLayout, QToolButton, QWidget

from kvarn.viewmodels.live.chart_export import ChartExport
from kvarn.viewmodels.live.chart_sheet import cursor_text
from kvarn.viewmodels.live.graph_vm import GraphVm, Window
from kvarn.views.live.charts.chart_panel import ChartPanel
from kvarn.views.live.charts.chart_set import (
    COUNT_UNIT,
    context_panel,
    decode_panel,
    memory_panel,
    prefill_panel,
    rebuild_panel,
)
from kvarn.views.live.charts.end_labels import WIDTH as LABELS_WIDTH
from kvarn.views.live.charts.time_plot import AXIS_WIDTH, EDGE
from kvarn.views.theme import XS, L, S, theme
from kvarn.views.widgets.card import Card
from kvarn.views.widgets.labels import ElidedLabel

_WINDOWS = ((Window.MINUTE, "60 s"), (Window.FIVE_MINUTES, "5 min"), (Window.QUARTER, "15 min"), (Window.RUN, "run"))
_STRETCH = (4, 2, 4, 2, 3)
_WORDS_FROM = 500
"""Width in pixels that the toolbar needs to write its buttons out."""


class ChartsCard(Card):
    """Draws whatever `GraphVm` says is new; asks for nothing while it cannot be seen."""

    def __init__(self, vm: GraphVm, export: ChartExport, parent: QWidget | None = None) -> None:
        super().__init__(parent=parent)
        self._vm, self._export = vm, export
        self._cursor = ElidedLabel("", "caption")
        self._pause = QToolButton()
        self._windows = QButtonGroup(self)
        self.panels = self._make_panels()
        self._arrange()
        vm.frame_ready.connect(self._draw)
        vm.paused_changed.connect(self._show_pause)
        vm.window_changed.connect(self._show_window)
        export.finished.connect(self._show_export)
        theme().changed.connect(self._show_pause)
        self._show_pause()
        self._show_window()

    def set_on_gpu(self, on_gpu: bool) -> None:
        """Name the graph events by what the engine counts."""
        title = "Graph re-captures" if on_gpu else "Graph rebuilds"
        if title != self.panels[3].title:
            self.panels[3].set_title(title, COUNT_UNIT)

    def toggle_pause(self) -> None:
        """Freeze the charts, or let them run on."""
        self._vm.set_paused(not self._vm.is_paused)

    def export_all(self) -> None:
        """Ask for a file; its ending chooses picture or numbers."""
        name = self._ask_name("kvarn-charts.png", "Picture (*.png);;Numbers (*.csv)")
        if name.lower().endswith(".csv"):
            self._export.write_csv(name, [(p.title, p.sheet_of(self._vm.frame)) for p in self.panels], self._vm.frame)
        elif name:
            self._export.write_bytes(name, _png_of(self))

    def showEvent(self, event: QShowEvent) -> None:
        """Seen again: draw."""
        super().showEvent(event)
        self._vm.set_visible(True)

    def hideEvent(self, event: QHideEvent) -> None:
        """Not seen: do nothing at all."""
        super().hideEvent(event)
        self._vm.set_visible(False)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """The frames follow the width."""
        super().resizeEvent(event)
        self._vm.set_width_px(self.width() - AXIS_WIDTH - LABELS_WIDTH - EDGE - 2 * L)
        self._fit_buttons()

    def _draw(self) -> None:
        for panel in self.panels:
            panel.show_frame(self._vm.frame)

    def _move_cursor(self, x_s: float | None) -> None:
        inside = x_s if x_s is not None and -self._vm.frame.span_s <= x_s <= 0 else None
        for panel in self.panels:
            panel.show_cursor(inside)
        self._cursor.set_role("caption")
        self._cursor.setText("" if inside is None else cursor_text(self._vm.frame, inside))

    def _export_png(self, panel: ChartPanel) -> None:
        if name := self._ask_name(_file_name(panel.title, "png"), "Picture (*.png)"):
            self._export.write_bytes(name, _png_of(panel))

    def _export_csv(self, panel: ChartPanel) -> None:
        if name := self._ask_name(_file_name(panel.title, "csv"), "Numbers (*.csv)"):
            frame = self._vm.frame
            self._export.write_csv(name, [(panel.title, panel.sheet_of(frame))], frame)

    def _ask_name(self, proposal: str, kinds: str) -> str:
        return QFileDialog.getSaveFileName(self, "Export", proposal, kinds)[0]

    def _make_panels(self) -> tuple[ChartPanel, ...]:
        panels = (decode_panel(), prefill_panel(), memory_panel(), rebuild_panel(), context_panel())
        for panel in panels:
            panel.plot.hovered.connect(self._move_cursor)
            panel.export_png.connect(self._export_png)
            panel.export_csv.connect(self._export_csv)
        return panels

    def _arrange(self) -> None:
        bar = QHBoxLayout()
        bar.setSpacing(XS)
        for window, text in _WINDOWS:
            button = _quiet(text, f"Show {text}")
            button.setCheckable(True)
            self._windows.addButton(button, int(window))
            bar.addWidget(button)
        self._windows.idClicked.connect(lambda seconds: self._vm.set_window(Window(seconds)))
        self._cursor.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        bar.addWidget(self._cursor, 1)
        self._pause.setProperty("role", "quiet")
        self._pause.setIconSize(QSize(15, 15))
        self._pause.clicked.connect(self.toggle_pause)
        bar.addWidget(self._pause)
        self._everything = _quiet("Export", "Export all charts (Ctrl+E)")
        self._everything.setIconSize(QSize(14, 14))
        self._everything.clicked.connect(self.export_all)
        bar.addWidget(self._everything)
        self.body.setSpacing(S)
        self.body.addLayout(bar)
        for panel, stretch in zip(self.panels, _STRETCH, strict=True):
            self.body.addWidget(panel, stretch)

    def _show_export(self, went_well: bool, sentence: str) -> None:
        self._cursor.set_role("good" if went_well else "bad")
        self._cursor.setText(sentence)

    def _show_pause(self) -> None:
        paused = self._vm.is_paused
        self._pause.setText("Resume" if paused else "Pause")
        self._pause.setAccessibleName(f"{self._pause.text()} charts")
        self._pause.setToolTip("Charts stand still; measuring goes on (Space)" if paused else "Freeze charts (Space)")
        self._everything.setIcon(theme().icon("export", theme().palette.mute))
        self._pause.setIcon(theme().icon("play" if paused else "pause", theme().palette.mute))

    def _fit_buttons(self) -> None:
        """Where there is no room for words the icons stay."""
        narrow = self.width() < _WORDS_FROM
        style = Qt.ToolButtonStyle
        self._pause.setToolButtonStyle(style.ToolButtonIconOnly if narrow else style.ToolButtonTextBesideIcon)
        self._everything.setToolButtonStyle(style.ToolButtonIconOnly if narrow else style.ToolButtonTextOnly)

    def _show_window(self) -> None:
        self._windows.button(int(self._vm.window)).setChecked(True)


def _quiet(text: str, tip: str) -> QToolButton:
    button = QToolButton()
    button.setProperty("role", "quiet")
    button.setText(text)
    button.setToolTip(tip)
    return button


def _file_name(title: str, ending: str) -> str:
    return f"kvarn-{title.lower().replace(' ', '-')}.{ending}"


def _png_of(widget: QWidget) -> bytes:
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    widget.grab().save(buffer, "PNG")
    return bytes(buffer.data().data())
