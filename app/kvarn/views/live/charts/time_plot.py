"""One plot over the shared time axis: fixed axes, a cursor, event marks, and a sentence where there is no data."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pyqtgraph as pg
from PySide6.QtCore import QEvent, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QMouseEvent, QPen, QResizeEvent
from PySide6.QtWidgets import QWidget

from kvarn.domain.time_text import ago_text
from kvarn.viewmodels.live.chart_frame import ChartFrame, MarkFrame
from kvarn.views.theme import sized_font, theme
from kvarn.views.widgets.labels import PlainLabel

AXIS_WIDTH = 56
TIME_AXIS_HEIGHT = 20
EDGE = 16
"""Room for the half of a label that stands outside the plot."""
TIME_TICKS = {60: 15, 300: 60, 900: 180}
"""Seconds between time labels, by window length."""


def nice_ceiling(value: float) -> float:
    """The next of 1, 2, 4, 5, 8 times a power of ten, so that half of it is a round number too."""
    if not math.isfinite(value) or value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next((step * power for step in (1, 2, 4, 5, 8) if step * power >= value), 10 * power)


def time_step(span_s: float) -> int:
    """Seconds between time labels."""
    steps = (15, 60, 180, 600, 1800, 3600, 4 * 3600, 12 * 3600)
    return TIME_TICKS.get(round(span_s)) or next((step for step in steps if span_s / step <= 6), 86400)


class EdgeAxis(pg.AxisItem):
    """An axis that also writes the labels at its very ends, half of which stand outside the plot."""

    def boundingRect(self) -> QRectF:
        """Wider than the plot by the half of a label."""
        rect = super().boundingRect()
        return rect.adjusted(0, -EDGE, 0, EDGE) if self.orientation == "left" else rect.adjusted(-EDGE, 0, EDGE, 0)


class TimePlot(pg.PlotWidget):
    """Subclasses add items to `plotItem` and draw a frame in `show_frame`, then call `finish_frame`."""

    hovered = Signal(object)
    """Seconds relative to now under the pointer, or None when it left."""

    def __init__(self, value_text: Callable[[float], str], *, shows_times: bool, parent: QWidget | None = None) -> None:
        axes = {side: EdgeAxis(side) for side in ("left", "bottom")}
        # Menus that are never shown would cost a third of the window's start.
        box = pg.ViewBox(enableMenu=False, enableMouse=False)
        super().__init__(parent, axisItems=axes, viewBox=box, enableMenu=False)
        self._value_text = value_text
        self._shows_times = shows_times
        self._top = 0.0
        self._span = 0.0
        self._marks: list[pg.InfiniteLine] = []
        self._cursor = pg.InfiniteLine(angle=90)
        self._caption = PlainLabel("", "chart-caption", self)
        self._caption.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._prepare()
        theme().changed.connect(self.apply_theme)
        self.apply_theme()

    @property
    def bottom_px(self) -> int:
        """Height of what stands below the plot area."""
        return TIME_AXIS_HEIGHT if self._shows_times else 7

    @property
    def top(self) -> float:
        """Upper end of the value axis."""
        return self._top

    def set_span(self, span_s: float) -> None:
        """Show the last `span_s` seconds."""
        if span_s == self._span:
            return
        self._span = span_s
        self.setXRange(-span_s, 0, padding=0)
        step = time_step(span_s)
        ticks = [(-float(s), ago_text(s)) for s in range(0, int(span_s) + 1, step)]
        self.getAxis("bottom").setTicks([ticks])

    def set_top(self, top: float, ticks: Sequence[float] | None = None) -> None:
        """Upper end of the value axis; it starts at zero."""
        if top == self._top:
            return
        self._top = top
        self.setYRange(0, top, padding=0)
        values = (0, top / 2, top) if ticks is None else ticks
        self.getAxis("left").setTicks([[(v, self._value_text(v)) for v in values]])

    def set_caption(self, text: str) -> None:
        """A sentence in the middle of an empty plot; empty hides it."""
        if text != self._caption.text():
            self._caption.setText(text)
            self._place_caption()
        self._caption.setVisible(bool(text))

    def show_cursor(self, x: float | None) -> None:
        """Move the linked cursor; None hides it."""
        self._cursor.setVisible(x is not None)
        if x is not None:
            self._cursor.setPos(x)

    def show_marks(self, marks: Sequence[MarkFrame]) -> None:
        """One thin upright line for each event."""
        while len(self._marks) < len(marks):
            line = pg.InfiniteLine(angle=90)
            self.plotItem.addItem(line, ignoreBounds=True)
            self._marks.append(line)
        for line, mark in zip(self._marks, marks, strict=False):
            line.setPos(mark.x_s)
            if (pen := self._mark_pens[mark.kind == "error"]) != line.pen:
                line.setPen(pen)
        for number, line in enumerate(self._marks):
            line.setVisible(number < len(marks))
        if marks:
            # A moved line leaves dashes behind where nothing else of the plot is drawn anew.
            self.viewport().update()

    def show_frame(self, frame: ChartFrame) -> None:
        """Draw one frame."""
        self.set_span(frame.span_s)
        self.show_marks(frame.lines)

    def pen(self, colour: QColor | str, width: float = 1, style: Qt.PenStyle = Qt.PenStyle.SolidLine) -> QPen:
        """A pen `width` device-independent pixels wide: plot pens count in the screen's own."""
        return pg.mkPen(QColor(colour), width=width * self.devicePixelRatioF(), style=style)

    def event(self, event: QEvent) -> bool:
        """Another screen, another scale: the pens follow."""
        if event.type() == QEvent.Type.DevicePixelRatioChange:
            self.apply_theme()
        return super().event(event)

    def apply_theme(self) -> None:
        """Take the colours of the palette in force."""
        palette = theme().palette
        self.setBackground(palette.card)
        self._cursor.setPen(self.pen(palette.mute))
        self._mark_pens = [self.pen(colour, style=Qt.PenStyle.DashLine) for colour in (palette.mute, palette.bad)]
        for side in ("left", "bottom"):
            axis = self.getAxis(side)
            axis.setPen(self.pen(palette.line))
            axis.setTextPen(pg.mkPen(palette.mute))

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Tell the other charts where the pointer is."""
        view = self.plotItem.vb
        if view.sceneBoundingRect().contains(self.mapToScene(event.position().toPoint())):
            self.hovered.emit(view.mapSceneToView(self.mapToScene(event.position().toPoint())).x())
        else:
            self.hovered.emit(None)

    def leaveEvent(self, event: QEvent) -> None:
        """The cursor goes with the pointer."""
        super().leaveEvent(event)
        self.hovered.emit(None)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keep the caption in the middle."""
        super().resizeEvent(event)
        if hasattr(self, "_caption"):
            self._place_caption()

    def _prepare(self) -> None:
        item = self.plotItem
        item.hideButtons()
        item.disableAutoRange()
        item.setClipToView(True)
        item.layout.setContentsMargins(0, 7, EDGE, 0 if self._shows_times else 7)
        item.addItem(self._cursor, ignoreBounds=True)
        self._cursor.hide()
        self.setMouseTracking(True)
        left, bottom = self.getAxis("left"), self.getAxis("bottom")
        left.setWidth(AXIS_WIDTH)
        left.setGrid(255)
        for axis in (left, bottom):
            axis.setStyle(tickLength=0, tickFont=sized_font(0.84), tickTextOffset=6)
            axis.setStyle(autoExpandTextSpace=False, hideOverlappingLabels=False)
        if self._shows_times:
            bottom.setHeight(TIME_AXIS_HEIGHT)
        else:
            item.hideAxis("bottom")

    def _place_caption(self) -> None:
        self._caption.adjustSize()
        x = AXIS_WIDTH + (self.width() - AXIS_WIDTH - self._caption.width()) // 2
        self._caption.move(max(AXIS_WIDTH, x), max(0, (self.height() - self.bottom_px - self._caption.height()) // 2))
