"""The marks of an engine's life on the charts."""

from __future__ import annotations

from kvarn.domain.launch.engine_status import EnginePhase, EngineStatus, ExitReport
from kvarn.services.clock import SystemClock
from kvarn.services.launch.supervisor import Supervisor
from kvarn.services.live.engine_watch import EngineWatch
from kvarn.services.live.request_log import RequestLog
from kvarn.services.live.telemetry_link import TelemetryLink
from kvarn.services.live.telemetry_store import TelemetryStore

KILLED = ExitReport(kind="killed", message="The engine was killed (SIGKILL).", remedy="")


class Life(Supervisor):
    """Tells what the test says."""

    def tell(self, phase: EnginePhase, **facts) -> None:
        for callback in tuple(self._callbacks):
            callback(EngineStatus(phase=phase, **facts))


def test_a_restart_carries_its_reason_on_the_charts_and_a_first_start_none() -> None:
    store, clock, life = TelemetryStore(), SystemClock(), Life()
    watch = EngineWatch(life, TelemetryLink(store, RequestLog(), clock=clock), store, clock=clock)
    life.tell(EnginePhase.STARTING)
    life.tell(EnginePhase.RESTARTING, report=KILLED)
    life.tell(EnginePhase.STARTING, restarts=1)
    watch.close()
    texts = [mark.text.strip() for mark in store.marks(0, clock.now())]
    assert texts == ["loading", KILLED.message, f"loading  again: {KILLED.message}"]
