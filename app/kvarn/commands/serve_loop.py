"""The main thread of `kvarn serve`: hands news, log and figures to the output until the engine has ended."""

from __future__ import annotations

import queue

from kvarn.commands.serve_output import ServeOutput, ready_from
from kvarn.commands.stop_signals import signals_call
from kvarn.domain.errors import EngineCallError
from kvarn.domain.launch.asked_got import asked_got
from kvarn.domain.launch.engine_build import EngineBuild
from kvarn.domain.launch.engine_props import EngineProps
from kvarn.domain.launch.engine_status import EnginePhase, EngineStatus, ExitReport
from kvarn.domain.launch.launch_plan import LaunchPlan
from kvarn.domain.launch.restart_policy import RestartPolicy
from kvarn.domain.library.model_entry import ModelEntry
from kvarn.domain.live.snapshot import snapshot
from kvarn.services import paths
from kvarn.services.clock import SystemClock
from kvarn.services.launch.props import fetch_props
from kvarn.services.launch.run_recorder import RunRecorder
from kvarn.services.launch.supervisor import Supervisor
from kvarn.services.live.gpu_probe import GpuProbe
from kvarn.services.live.log_store import LogStore
from kvarn.services.live.request_log import RequestLog
from kvarn.services.live.telemetry_link import TelemetryLink
from kvarn.services.live.telemetry_store import TelemetryStore

TICK_S = 0.2
_LINES_A_TICK = 2000


class ServeLoop:
    """One run. Builds the services, owns none of their threads' time: it only reads what they keep."""

    def __init__(
        self,
        model: ModelEntry,
        plan: LaunchPlan,
        build: EngineBuild,
        *,
        api_key: str | None,
        output: ServeOutput,
        policy: RestartPolicy,
    ) -> None:
        self._plan, self._build, self._key, self._output = plan, build, api_key, output
        self._recorder = RunRecorder(model, plan, build)
        self._clock = SystemClock()
        # Named by its port, so that two of them do not rotate each other's file.
        self._log = LogStore(paths.state_dir() / "logs" / f"serve-{plan.settings.port}.log", clock=self._clock)
        self._log.hide(api_key or "")
        self._store = TelemetryStore()
        self._requests = RequestLog()
        gpu = GpuProbe(clock=self._clock)
        self._link = TelemetryLink(self._store, self._requests, clock=self._clock, gpu_probe=gpu)
        self._supervisor = Supervisor(clock=self._clock, on_log=self._log.append, restart_policy=policy)
        self._news: queue.SimpleQueue[EngineStatus] = queue.SimpleQueue()
        self._seen_line = self._seen_request = 0
        self._figures_at_s = 0.0

    def run(self) -> ExitReport:
        """Serve until told to stop or the engine is beyond help. A reader that goes away means stop, too."""
        self._supervisor.subscribe(self._news.put)
        try:
            with signals_call(self._supervisor.stop):
                self._supervisor.launch(self._plan, self._build, self._key)
                status = self._follow()
        except BrokenPipeError:
            status = None
        finally:
            self._link.close()
            self._supervisor.close()
            self._log.close()
        return (status.report if status else None) or ExitReport(kind="stopped", message="Stopped.", remedy="")

    def _follow(self) -> EngineStatus:
        while True:
            status = self._next_news()
            self._show_log()
            if status:
                self._show(status)
            if status and not status.is_active:
                self._show_log()
                self._output.exit(status.report or ExitReport(kind="stopped", message="Stopped.", remedy=""))
                return status
            self._show_figures()
            self._record_requests()

    def _next_news(self) -> EngineStatus | None:
        try:
            return self._news.get(timeout=TICK_S)
        except queue.Empty:
            return None

    def _show(self, status: EngineStatus) -> None:
        self._output.status(status)
        if status.phase is EnginePhase.READY and status.pid is not None:
            self._link.attach(self._plan.base_url, status.pid, self._key)
            props = self._ask_props()
            self._output.ready(ready_from(status, self._plan, props, has_key=self._key is not None))
        else:
            self._link.detach()

    def _ask_props(self) -> EngineProps | None:
        try:
            props = fetch_props(self._plan.base_url, self._key)
        except EngineCallError as error:
            self._log.append("kvarn", f"{error} {error.detail}".strip())
            return None
        self._recorder.loaded(props)
        for row in asked_got(self._plan, props, None):
            if row.agrees is False:
                self._log.append("kvarn", f"{row.label}: asked for {row.asked}, the engine runs {row.got}")
        return props

    def _record_requests(self) -> None:
        new, self._seen_request = self._requests.since(self._seen_request)
        for request in new:
            self._recorder.finished(request)

    def _show_log(self) -> None:
        lines, lost = self._log.since(self._seen_line, _LINES_A_TICK)
        if lines:
            self._seen_line = lines[-1].seq
            self._output.log(lines, lost)

    def _show_figures(self) -> None:
        now_s = self._clock.now()
        is_due = now_s - self._figures_at_s >= self._output.telemetry_every_s
        if is_due and self._supervisor.status.phase is EnginePhase.READY:
            self._figures_at_s = now_s
            self._output.telemetry(snapshot(self._store, now_s))
