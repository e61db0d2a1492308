"""Ties the telemetry to the engine's life: attach when it is ready, let go when it is not, mark both on the charts."""

from __future__ import annotations

from collections.abc import Callable

from kvarn.domain.launch.engine_status import EnginePhase, EngineStatus
from kvarn.services.clock import Clock
from kvarn.services.launch.supervisor import Supervisor
from kvarn.services.live.telemetry_link import TelemetryLink
from kvarn.services.live.telemetry_store import TelemetryStore


class EngineWatch:
    """Listens on the supervisor's thread; every step returns at once."""

    def __init__(
        self,
        supervisor: Supervisor,
        link: TelemetryLink,
        store: TelemetryStore,
        *,
        clock: Clock,
        api_key: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._link, self._store, self._clock, self._api_key = link, store, clock, api_key
        self._phase = supervisor.status.phase
        self._reason = ""
        self._unsubscribe = supervisor.subscribe(self._on_status)

    def close(self) -> None:
        """Listen no more."""
        self._unsubscribe()

    def _on_status(self, status: EngineStatus) -> None:
        if status.phase is self._phase:
            return
        was_ready, self._phase = self._phase is EnginePhase.READY, status.phase
        if status.phase is EnginePhase.READY and status.plan is not None and status.pid is not None:
            self._link.attach(status.plan.base_url, status.pid, self._api_key())
        elif was_ready:
            self._link.detach()
        self._mark(status)

    def _mark(self, status: EngineStatus) -> None:
        title = status.plan.model_title if status.plan else ""
        again = f" again: {self._reason}" if status.restarts else ""
        self._reason = status.report.message if status.report else ""
        texts = {
            EnginePhase.STARTING: ("load", f"loading {title}{again}"),
            EnginePhase.READY: ("ready", f"{title} ready"),
            EnginePhase.STOPPED: ("stop", "engine stopped"),
            EnginePhase.RESTARTING: ("error", status.report.message if status.report else "engine crashed"),
            EnginePhase.FAILED: ("error", status.report.message if status.report else "engine failed"),
        }
        if status.phase in texts:
            self._store.mark(self._clock.now(), *texts[status.phase])
