"""The engine as the window's header tells it: one sentence, an address, how long, and why it ended."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal

from kvarn.domain.launch.engine_build import EngineBuild
from kvarn.domain.launch.engine_status import EnginePhase, EngineStatus, ExitReport
from kvarn.domain.launch.launch_plan import LaunchPlan
from kvarn.domain.time_text import duration_text
from kvarn.services.clock import Clock, SystemClock
from kvarn.services.launch.supervisor import Supervisor
from kvarn.viewmodels.bridge import Bridge

_LEADS = {
    EnginePhase.STARTING: "Starting",
    EnginePhase.LOADING: "Loading",
    EnginePhase.READY: "Serving",
    EnginePhase.STOPPING: "Stopping",
    EnginePhase.RESTARTING: "About to restart",
}
REFUSED = "The last launch was refused: its port could not be had."
_DOTS = {
    EnginePhase.READY: "good",
    EnginePhase.STARTING: "busy",
    EnginePhase.LOADING: "busy",
    EnginePhase.STOPPING: "busy",
    EnginePhase.RESTARTING: "bad",
    EnginePhase.FAILED: "bad",
    EnginePhase.STOPPED: "off",
}


class EngineVm(QObject):
    """Reads the supervisor's status; `changed` says that something here reads differently now."""

    changed = Signal()
    became_ready = Signal()

    def __init__(self, supervisor: Supervisor, *, clock: Clock | None = None, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._supervisor = supervisor
        self._clock = clock or SystemClock()
        self.build: EngineBuild | None = None
        self.status: EngineStatus = supervisor.status
        self._bridge = Bridge(supervisor.subscribe, self)
        self._bridge.received.connect(self._on_status)

    @property
    def dot(self) -> str:
        """State for `StateDot`."""
        return "off" if self.status.was_refused else _DOTS[self.status.phase]

    @property
    def lead(self) -> str:
        """The first words of the state sentence, e.g. `Serving SmolLM2-135M`."""
        phase, plan = self.status.phase, self.status.plan
        if phase in _LEADS and plan is not None:
            return f"{_LEADS[phase]} {plan.alias or plan.model_title}"
        if phase is EnginePhase.FAILED and not self.status.was_refused:
            return "The engine failed"
        return "Nothing is served"

    @property
    def detail(self) -> str:
        """Cache types and context while there is an engine; else what happened or what to do."""
        plan, report = self.status.plan, self.status.report
        if self.status.was_refused:
            return REFUSED
        if self.status.phase in {EnginePhase.FAILED, EnginePhase.RESTARTING} and report is not None:
            return report.message
        if not self.status.is_active or plan is None:
            return "Choose a model and press Launch."
        return " · ".join(part for part in (_cache_text(plan), self._loading_text()) if part)

    @property
    def endpoint(self) -> str | None:
        """The address to give to a client, while there is one."""
        return self.status.endpoint

    @property
    def uptime(self) -> str:
        """`up 1 h 12 min`; while loading, how long already; empty otherwise."""
        if self.status.ready_since_s is not None and self.status.phase is EnginePhase.READY:
            return f"up {duration_text(self._clock.now() - self.status.ready_since_s)}"
        if self.status.is_active:
            return duration_text(self._clock.now() - self.status.since_s)
        return ""

    @property
    def can_stop(self) -> bool:
        """True while there is something to stop; a second press during the stop changes nothing."""
        return self.status.is_active and self.status.phase is not EnginePhase.STOPPING

    @property
    def failure(self) -> ExitReport | None:
        """Why the last engine ended, when nobody asked it to."""
        return self.status.report if self.status.phase is EnginePhase.FAILED else None

    @property
    def context(self) -> str:
        """Engine build and model file of the failure, for its card."""
        plan, build = self.status.plan, self.build
        engine = f"engine {build.version}" if build else ""
        return " · ".join(part for part in (engine, str(plan.model_path) if plan else "") if part)

    def diagnostics(self) -> str:
        """What to paste into a report: no keys, no prompts."""
        report = self.status.report
        lines = [self.lead, self.context]
        if report is not None:
            ended = f"exit code {report.exit_code}" if report.signal is None else f"signal {report.signal}"
            lines += [report.message, report.remedy, f"{report.kind}, {ended}", "", *report.last_words]
        return "\n".join(lines)

    def stop(self) -> None:
        """End the engine in whatever phase it is; returns at once."""
        self._supervisor.stop()

    def close(self) -> None:
        """Hear no more news."""
        self._bridge.close()

    def _on_status(self, status: EngineStatus) -> None:
        was_ready = self.status.phase is EnginePhase.READY
        self.status = status
        self.changed.emit()
        if status.phase is EnginePhase.READY and not was_ready:
            self.became_ready.emit()

    def _loading_text(self) -> str:
        progress = self.status.load_progress
        if self.status.phase is not EnginePhase.LOADING or progress is None:
            return ""
        return f"{progress:.0%}".replace("%", " %")


def _cache_text(plan: LaunchPlan) -> str:
    s = plan.settings
    share = "tokens in one pool" if s.kv_unified and s.slots > 1 else "tokens per slot"
    slots = f" · {s.slots} slots" if s.slots > 1 else ""
    return f"{s.kv_k} / {s.kv_v} · {s.context_tokens:,} {share}{slots}"
