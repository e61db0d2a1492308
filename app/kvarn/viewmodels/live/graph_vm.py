"""Pulls the visible window out of the telemetry store, at most four times a second, and only while somebody looks."""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import IntEnum

import numpy as np
from PySide6.QtCore import QObject, Qt, QTimer, Signal

from kvarn.domain.launch.memory_budget import MemoryBudget
from kvarn.domain.live import quantities as q
from kvarn.domain.live.crowding import is_crowded
from kvarn.domain.live.snapshot import LiveSnapshot, snapshot
from kvarn.domain.live.thinning import thin
from kvarn.services.clock import Clock, SystemClock
from kvarn.services.live.telemetry_store import TelemetryStore
from kvarn.viewmodels.live.chart_frame import ChartFrame, CurveFrame, MarkFrame, MemoryBand, curve
from kvarn.viewmodels.live.memory_bands import ram_bands, vram_bands

REFRESH_HZ = 4
IDLE_REFRESH_S = 1.0
"""Nothing but the time axis moves while no request runs."""
CROWDED_SHARE = 0.005
"""Of one core that drawing may take on a crowded machine."""
CROWDED_REFRESH_S = 3.0
"""Slower than this would look dead, whatever a frame costs."""

DRAWN = (
    q.DECODE_TOK_PER_S,
    q.DECODE_RAW_TOK_PER_S,
    q.PREFILL_TOK_PER_S,
    q.CONTEXT_TOKENS_USED,
    q.GRAPH_BUILT,
    q.CUDA_CAPTURED,
)
_COUNTS = (q.GRAPH_BUILT, q.CUDA_CAPTURED)
_MEMORY = (q.ENGINE_MAPPED_BYTES, q.ENGINE_PRIVATE_BYTES, q.VRAM_USED_BYTES, q.VRAM_ENGINE_BYTES)


class Window(IntEnum):
    """Length of the time axis in seconds; RUN is the whole session."""

    MINUTE = 60
    FIVE_MINUTES = 300
    QUARTER = 900
    RUN = 0


class GraphVm(QObject):
    """`frame_ready`: there is a new `frame` to draw. `snapshot_ready`: the figures are fresh, paused or not."""

    frame_ready = Signal()
    snapshot_ready = Signal()
    paused_changed = Signal(bool)
    visible_changed = Signal(bool)
    window_changed = Signal()

    def __init__(
        self,
        store: TelemetryStore,
        *,
        clock: Clock | None = None,
        wall: Callable[[], float] = time.time,
        own_cpu_s: Callable[[], float] = time.thread_time,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self.store = store
        self._clock = clock or SystemClock()
        self._wall, self._own_cpu_s = wall, own_cpu_s
        self.window = Window.MINUTE
        self.is_paused = False
        self.budget: MemoryBudget | None = None
        """What the running engine was planned to take."""
        self.explain: Callable[[str], str] = lambda _name: ""
        """Series name -> why there is nothing to draw, for the middle of an empty chart."""
        self._width_px = 900
        self._opened_s = self._clock.now()
        self._drawn_revision = -1
        self._drawn_at_s = -1e9
        self._drawn_cpu_s = own_cpu_s()
        self.snapshot: LiveSnapshot = snapshot(store, self._opened_s)
        self.frame = ChartFrame(span_s=60, wall_now_s=wall())
        self._timer = QTimer(self, interval=1000 // REFRESH_HZ)
        self._timer.setTimerType(Qt.TimerType.CoarseTimer)
        self._timer.timeout.connect(self.tick)

    @property
    def is_running(self) -> bool:
        """True while the timer ticks: shown, not minimised."""
        return self._timer.isActive()

    def set_visible(self, visible: bool) -> None:
        """Hidden or minimised charts cost nothing; shown again, they are drawn at once."""
        if visible == self._timer.isActive():
            return
        if visible:
            self._timer.start()
            self.redraw()
        else:
            self._timer.stop()
        self.visible_changed.emit(visible)

    def set_width_px(self, width: int) -> None:
        """How many pixels the time axis has; more points than twice that are never sent."""
        self._width_px = max(100, width)

    def set_window(self, window: Window) -> None:
        """Show another stretch of time."""
        self.window = window
        self.window_changed.emit()
        self.redraw()

    def set_paused(self, paused: bool) -> None:
        """Freeze the picture; measuring goes on."""
        if paused != self.is_paused:
            self.is_paused = paused
            self.paused_changed.emit(paused)
            self.redraw()

    def begin_run(self) -> None:
        """A new engine serves: the run window starts here."""
        self._opened_s = self._clock.now()
        self.redraw()

    def tick(self) -> None:
        """Redraw when there is something new to see."""
        since_s = self._clock.now() - self._drawn_at_s
        changed = self.store.revision != self._drawn_revision
        if not changed and not self._shows_anything():
            return
        calm = self.snapshot.requests_processing in (0, None) and not self.snapshot.requests_deferred
        pause_s = IDLE_REFRESH_S if calm or not changed else max(self._pixel_s(), self._crowded_s())
        if since_s >= pause_s * 0.9:
            self.redraw()

    def redraw(self) -> None:
        """Pull a frame now, unless nobody sees it; while paused the picture stands, the figures go on."""
        if not self.is_running:
            return
        self._drawn_revision = self.store.revision
        self._drawn_at_s = self._clock.now()
        self._drawn_cpu_s = self._own_cpu_s()
        self.snapshot = snapshot(self.store, self._drawn_at_s)
        if not self.is_paused:
            self.frame = self.frame_at(self._drawn_at_s)
            self.frame_ready.emit()
        self.snapshot_ready.emit()

    def frame_at(self, now_s: float) -> ChartFrame:
        """Everything visible at `now_s`, thinned to the screen."""
        span_s = self._span_s(now_s)
        curves = {name: self._curve(name, now_s, span_s) for name in DRAWN + _MEMORY}
        marks = self.store.marks(now_s - span_s, now_s)
        on_gpu = not curves[q.VRAM_USED_BYTES].is_empty
        limit = self.snapshot.vram_total_bytes if on_gpu else self.snapshot.system_ram_total_bytes
        return ChartFrame(
            span_s=span_s,
            wall_now_s=self._wall() - (self._clock.now() - now_s),
            curves=curves,
            marks=tuple(MarkFrame(mark.t_s - now_s, mark.kind, mark.text) for mark in marks),
            memory=self._bands(curves, on_gpu),
            memory_limit_bytes=limit,
            memory_limit_label="card" if on_gpu else "RAM",
            captions={name: self.explain(name) for name in (*DRAWN, q.ENGINE_RSS_BYTES)},
        )

    def _bands(self, curves: dict[str, CurveFrame], on_gpu: bool) -> tuple[MemoryBand, ...]:
        if on_gpu:
            return vram_bands(curves[q.VRAM_USED_BYTES], curves[q.VRAM_ENGINE_BYTES], self.budget)
        return ram_bands(curves[q.ENGINE_MAPPED_BYTES], curves[q.ENGINE_PRIVATE_BYTES], self.budget)

    def _curve(self, name: str, now_s: float, span_s: float) -> CurveFrame:
        t, v = self.store.window(name, now_s - span_s - 2, now_s)
        if name in _COUNTS:
            return curve(t, v, now_s)
        points = 2 * self._width_px
        # Parts of one stack must keep the same times, so they are thinned by index, not by extremes.
        if name in _MEMORY:
            stride = -(-len(t) // points) or 1
            return curve(t[::stride], v[::stride], now_s)
        return curve(*thin(t, v, points), now_s)

    def _span_s(self, now_s: float) -> float:
        if self.window is not Window.RUN:
            return float(self.window)
        run_s = max(60.0, now_s - self._opened_s)
        step = 60 if run_s < 900 else 300 if run_s < 7200 else 1800
        return float(np.ceil(run_s / step) * step)

    def _pixel_s(self) -> float:
        """Seconds that one pixel of the time axis stands for, within the refresh limits."""
        return min(max(self.frame.span_s / self._width_px, 1 / REFRESH_HZ), IDLE_REFRESH_S)

    def _crowded_s(self) -> float:
        """Seconds a frame must last where no core is free, by what the one on screen has cost this thread."""
        if not is_crowded(self.store, self._clock.now()):
            return 0.0
        return min((self._own_cpu_s() - self._drawn_cpu_s) / CROWDED_SHARE, CROWDED_REFRESH_S)

    def _shows_anything(self) -> bool:
        return any(not shown.is_empty for shown in self.frame.curves.values())
