"""The state sentence over every page: what is served, how, where, since when, and Stop."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt, QTimer
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QWidget

from kvarn.viewmodels.launch.engine_vm import EngineVm
from kvarn.views.theme import L, M, theme
from kvarn.views.widgets.copy_button import CopyButton
from kvarn.views.widgets.labels import ElidedLabel, PlainLabel
from kvarn.views.widgets.state_dot import StateDot

HEIGHT = 54
_UPTIME_MS = 1000


class Header(QFrame):
    """Reads `EngineVm`; the uptime moves once a second while an engine is active and the window is shown."""

    def __init__(self, engine: EngineVm, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("role", "header")
        self.setFixedHeight(HEIGHT)
        self._engine = engine
        self._dot = StateDot()
        self._lead, self._detail = ElidedLabel("", "headline"), ElidedLabel("")
        self._uptime = PlainLabel("", "chip")
        self.copy_url = CopyButton("", lambda: engine.endpoint or "")
        self.stop = QPushButton("Stop")
        self._timer = QTimer(self, interval=_UPTIME_MS)
        self._arrange()
        self.stop.clicked.connect(engine.stop)
        self._timer.timeout.connect(self._show_uptime)
        engine.changed.connect(self.show_state)
        theme().changed.connect(self._draw_icon)
        self._draw_icon()
        self.show_state()

    def set_ticking(self, ticking: bool) -> None:
        """The uptime stands still while nobody sees it."""
        if ticking and self._engine.status.is_active:
            self._timer.start()
            self._show_uptime()
        else:
            self._timer.stop()

    def show_state(self) -> None:
        """Say how things stand."""
        vm = self._engine
        self._dot.set_state(vm.dot)
        self._lead.setText(vm.lead)
        self._detail.setText(vm.detail)
        self.copy_url.setVisible(vm.endpoint is not None)
        self.copy_url.set_label(vm.endpoint or "")
        self.stop.setEnabled(vm.can_stop)
        self.stop.setVisible(vm.status.is_active)
        self._show_uptime()
        self.set_ticking(self.isVisible())
        self.setAccessibleDescription(f"{vm.lead}. {vm.detail} {vm.endpoint or ''}")

    def _show_uptime(self) -> None:
        self._uptime.setText(self._engine.uptime)
        self._uptime.setVisible(bool(self._engine.uptime))

    def _draw_icon(self) -> None:
        self.stop.setIcon(theme().icon("stop", theme().palette.bad))

    def _arrange(self) -> None:
        self.copy_url.setToolTip("Copy the address")
        self.copy_url.setAccessibleName("Copy the address")
        self.stop.setToolTip("Stop the engine (Ctrl+.)")
        self.stop.setIconSize(QSize(14, 14))
        row = QHBoxLayout(self)
        row.setContentsMargins(L, 0, L, 0)
        row.setSpacing(M)
        row.addWidget(self._dot)
        row.addWidget(self._lead)
        row.addWidget(self._detail)
        row.addWidget(self.copy_url)
        row.addWidget(self._uptime, 0, Qt.AlignmentFlag.AlignVCenter)
        row.addStretch(1)
        row.addWidget(self.stop)
