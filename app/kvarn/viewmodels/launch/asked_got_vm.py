"""What was asked for beside what the running engine reports, fetched once after each load."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, Signal

from kvarn.domain.errors import KvarnError
from kvarn.domain.launch.asked_got import AskedGot, asked_got
from kvarn.domain.launch.engine_props import EngineProps
from kvarn.domain.launch.engine_status import EnginePhase, EngineStatus
from kvarn.domain.launch.memory_budget import MemoryBudget
from kvarn.viewmodels.background import Background
from kvarn.viewmodels.launch.budget_vm import BudgetVm
from kvarn.viewmodels.launch.launch_vm import LaunchVm


class AskedGotVm(QObject):
    """`rows` is empty while nothing is served; `problem` says why the engine's word could not be had."""

    changed = Signal()

    def __init__(
        self,
        launch: LaunchVm,
        budget: BudgetVm,
        fetch: Callable[[EngineStatus], EngineProps],
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._launch, self._budget_vm = launch, budget
        self.rows: tuple[AskedGot, ...] = ()
        self.problem = ""
        self._asked: EngineStatus | None = None
        self._budget: MemoryBudget | None = None
        self._fetch = Background(_props_or_error(fetch), name="asked-got", parent=self)
        self._fetch.answered.connect(self._on_answered)
        launch.launched.connect(self._on_launched)
        launch.changed.connect(self._on_launch_changed)

    def close(self) -> None:
        """End the background work."""
        self._fetch.close()

    def _on_launched(self) -> None:
        """Keep the prediction this launch was made with; the form may move on while it loads."""
        self._budget = self._budget_vm.budget

    def _on_launch_changed(self) -> None:
        status = self._launch.status
        if status.phase is EnginePhase.READY:
            if self._asked is None or (self._asked.pid, self._asked.plan) != (status.pid, status.plan):
                self._asked = status
                self._fetch.ask(status)
        elif self._asked is not None:
            self._asked = None
            self._fetch.forget()
            self._show((), "")

    def _on_answered(self, status: EngineStatus, answer: EngineProps | KvarnError) -> None:
        if isinstance(answer, KvarnError):
            self._show((), str(answer))
        elif status.plan is not None:
            self._show(asked_got(status.plan, answer, self._budget), "")

    def _show(self, rows: tuple[AskedGot, ...], problem: str) -> None:
        self.rows, self.problem = rows, problem
        self.changed.emit()


def _props_or_error(fetch: Callable[[EngineStatus], EngineProps]) -> Callable[..., EngineProps | KvarnError]:
    def answer(status: EngineStatus, _is_stale: object) -> EngineProps | KvarnError:
        try:
            return fetch(status)
        except KvarnError as error:
            return error

    return answer
