"""The engine's life as one pure table: `advance(status, event)`. Only the supervisor calls it."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any

import msgspec

from kvarn.domain.launch.engine_events import (
    ChildExited,
    ChildStarted,
    EngineEvent,
    LaunchRequested,
    ReadySeen,
    RestartDue,
    StartFailed,
    StopRequested,
)
from kvarn.domain.launch.exit_report import PLACE_KINDS, ExitReport
from kvarn.domain.launch.launch_plan import LaunchPlan

__all__ = ["EnginePhase", "EngineStatus", "ExitReport", "ImpossibleEventError", "advance"]


class EnginePhase(StrEnum):
    """Where the engine child is in its life."""

    STOPPED = "stopped"
    STARTING = "starting"
    """Accepted; no child yet (memory settles, the port is checked)."""
    LOADING = "loading"
    READY = "ready"
    STOPPING = "stopping"
    RESTARTING = "restarting"
    """Crashed while serving; waiting before the next try. No child."""
    FAILED = "failed"


class EngineStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A frozen picture of the engine; everyone but the supervisor only ever reads one."""

    phase: EnginePhase = EnginePhase.STOPPED
    plan: LaunchPlan | None = None
    pid: int | None = None
    since_s: float = 0.0
    """Monotonic time at which this phase began."""
    ready_since_s: float | None = None
    load_progress: float | None = None
    """0 to 1 while loading, None when the engine does not tell."""
    report: ExitReport | None = None
    """Set in `failed` and `restarting`, and in `stopped` after a run."""
    restarts: int = 0
    """Restarts since Launch was pressed."""

    @property
    def endpoint(self) -> str | None:
        """Base URL while ready, else None."""
        return self.plan.endpoint if self.plan and self.phase is EnginePhase.READY else None

    @property
    def is_active(self) -> bool:
        """True while a child exists or is about to."""
        return self.phase not in {EnginePhase.STOPPED, EnginePhase.FAILED}

    @property
    def was_refused(self) -> bool:
        """True when the launch could not have its port: no engine of it ever served, so none has failed."""
        kind = self.report.kind if self.report else ""
        return self.phase is EnginePhase.FAILED and not self.restarts and kind in PLACE_KINDS


class ImpossibleEventError(ValueError):
    """An event that cannot happen in this phase: a defect of ours, never of the engine."""


def advance(status: EngineStatus, event: EngineEvent) -> EngineStatus:
    """Return the status after `event`; the same object when the event changes nothing.

    Raises ImpossibleEventError for pairs that are not in `TABLE`.
    """
    step = TABLE.get((status.phase, type(event)))
    if step is None:
        raise ImpossibleEventError(f"{type(event).__name__} cannot happen while {status.phase}")
    return step(status, event)


Step = Callable[[EngineStatus, Any], EngineStatus]


def _stay(status: EngineStatus, event: EngineEvent) -> EngineStatus:
    return status


def _launch(status: EngineStatus, event: LaunchRequested) -> EngineStatus:
    return EngineStatus(phase=EnginePhase.STARTING, plan=event.plan, since_s=event.at_s)


def _again(status: EngineStatus, event: RestartDue) -> EngineStatus:
    again = EngineStatus(phase=EnginePhase.STARTING, plan=status.plan, since_s=event.at_s)
    return msgspec.structs.replace(again, restarts=status.restarts + 1)


def _load(status: EngineStatus, event: ChildStarted) -> EngineStatus:
    return msgspec.structs.replace(status, phase=EnginePhase.LOADING, pid=event.pid, since_s=event.at_s)


def _serve(status: EngineStatus, event: ReadySeen) -> EngineStatus:
    return msgspec.structs.replace(status, phase=EnginePhase.READY, since_s=event.at_s, ready_since_s=event.at_s)


def _wind_down(status: EngineStatus, event: StopRequested) -> EngineStatus:
    return msgspec.structs.replace(status, phase=EnginePhase.STOPPING, since_s=event.at_s)


def _give_up(status: EngineStatus, event: StopRequested) -> EngineStatus:
    return _ended(status, EnginePhase.STOPPED, event.at_s, status.report)


def _fail(status: EngineStatus, event: StartFailed | ChildExited) -> EngineStatus:
    return _ended(status, EnginePhase.FAILED, event.at_s, event.report)


def _crash(status: EngineStatus, event: ChildExited) -> EngineStatus:
    phase = EnginePhase.RESTARTING if event.will_restart else EnginePhase.FAILED
    return _ended(status, phase, event.at_s, event.report)


def _end(status: EngineStatus, event: ChildExited) -> EngineStatus:
    return _ended(status, EnginePhase.STOPPED, event.at_s, event.report)


def _ended(status: EngineStatus, phase: EnginePhase, at_s: float, report: ExitReport | None) -> EngineStatus:
    return EngineStatus(phase=phase, plan=status.plan, since_s=at_s, report=report, restarts=status.restarts)


_P = EnginePhase
TABLE: dict[tuple[EnginePhase, type], Step] = {
    (_P.STOPPED, LaunchRequested): _launch,
    (_P.STOPPED, StopRequested): _stay,
    (_P.FAILED, LaunchRequested): _launch,
    (_P.FAILED, StopRequested): _stay,
    (_P.STARTING, LaunchRequested): _stay,
    (_P.STARTING, StartFailed): _fail,
    (_P.STARTING, ChildStarted): _load,
    (_P.STARTING, StopRequested): _give_up,
    (_P.LOADING, LaunchRequested): _stay,
    (_P.LOADING, ReadySeen): _serve,
    (_P.LOADING, StopRequested): _wind_down,
    (_P.LOADING, ChildExited): _fail,
    (_P.READY, LaunchRequested): _stay,
    (_P.READY, StopRequested): _wind_down,
    (_P.READY, ChildExited): _crash,
    (_P.STOPPING, LaunchRequested): _stay,
    (_P.STOPPING, StopRequested): _stay,
    # The engine may have become ready in the moment Stop was pressed.
    (_P.STOPPING, ReadySeen): _stay,
    (_P.STOPPING, ChildExited): _end,
    (_P.RESTARTING, LaunchRequested): _stay,
    (_P.RESTARTING, StopRequested): _give_up,
    (_P.RESTARTING, RestartDue): _again,
}
