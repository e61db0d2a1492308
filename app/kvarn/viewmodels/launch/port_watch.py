"""Whether the port in the form can be had; while it cannot, it is asked for again and again."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer, Signal

from kvarn.domain.launch.launch_plan import PlanProblem
from kvarn.viewmodels.background import Background

ASK_AGAIN_MS = 2000
_SETTLE_S = 0.2


class PortWatch(QObject):
    """`problem` is None when the port is free or nobody has asked; `changed` says that it reads differently now."""

    changed = Signal()

    def __init__(self, find_problem: Callable[[str, int], PlanProblem | None], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.problem: PlanProblem | None = None
        self._place: tuple[str, int] | None = None
        self._is_visible = False
        self._worker = Background(
            lambda place, _is_stale: find_problem(*place), settle_s=_SETTLE_S, name="check-port", parent=self
        )
        self._worker.answered.connect(self._on_answered)
        self._timer = QTimer(self, interval=ASK_AGAIN_MS)
        self._timer.timeout.connect(self._ask)

    def look_at(self, host: str, port: int) -> None:
        """Ask for this place from now on."""
        self._place = (host, port)
        self._ask()

    def forget(self) -> None:
        """Nobody wants to know, e.g. because our own engine holds the port."""
        self._place, self.problem = None, None
        self._worker.forget()
        self._keep_asking()

    def set_visible(self, visible: bool) -> None:
        """A problem nobody sees is not asked for again; shown again, it is at once."""
        self._is_visible = visible
        if visible and self.problem is not None:
            self._ask()
        self._keep_asking()

    def close(self) -> None:
        """End the background work."""
        self._timer.stop()
        self._worker.close()

    def _ask(self) -> None:
        if self._place is not None:
            self._worker.ask(self._place)

    def _on_answered(self, _place: object, problem: PlanProblem | None) -> None:
        is_news, self.problem = problem != self.problem, problem
        self._keep_asking()
        if is_news:
            self.changed.emit()

    def _keep_asking(self) -> None:
        wanted = self._is_visible and self.problem is not None
        if wanted != self._timer.isActive():
            self._timer.start() if wanted else self._timer.stop()
