"""The engine's life as one pure table: `advance(status, event)`. Only the supervisor calls it."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from kvarn.domain.launch.launch_plan import LaunchPlan


class EnginePhase(StrEnum):
    """Where the engine child is in its life."""

    STOPPED = "stopped"
    STARTING = "starting"
    LOADING = "loading"
    READY = "ready"
    STOPPING = "stopping"
    FAILED = "failed"


class ExitReport(msgspec.Struct, frozen=True, kw_only=True):
    """Why an engine ended: a kind for programs, a sentence and a remedy for people, its last words."""

    kind: str
    """`stopped`, `out-of-memory`, `bad-model`, `unknown-kv-type`, `port-taken`, `killed`, `crashed`, …"""
    message: str
    remedy: str
    last_words: tuple[str, ...] = ()
    exit_code: int | None = None
    signal: str | None = None


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
    """Set in `failed`, and in `stopped` after a run."""

    @property
    def endpoint(self) -> str | None:
        """Base URL while ready, else None."""
        return self.plan.endpoint if self.plan and self.phase is EnginePhase.READY else None

    @property
    def is_active(self) -> bool:
        """True while a child exists or is about to."""
        return self.phase in {EnginePhase.STARTING, EnginePhase.LOADING, EnginePhase.READY, EnginePhase.STOPPING}
