"""One engine from its start to its end: child, readiness watch, key file and pidfile, made and undone together."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from pathlib import Path

import msgspec

from kvarn.domain.launch.command_line import plan_to_command
from kvarn.domain.launch.engine_build import EngineBuild
from kvarn.domain.launch.engine_exit import ExitFacts, explain_exit
from kvarn.domain.launch.exit_report import ExitReport
from kvarn.domain.launch.launch_plan import LaunchPlan
from kvarn.services.clock import Clock
from kvarn.services.launch.api_key import KeyFile
from kvarn.services.launch.child_process import ChildProcess
from kvarn.services.launch.leftovers import note_engine
from kvarn.services.launch.port_owner import port_problem
from kvarn.services.launch.readiness import ReadinessWatch, Verdict


class RunRequest(msgspec.Struct, frozen=True):
    """What to run. Not stored anywhere: it holds the key."""

    plan: LaunchPlan
    build: EngineBuild
    api_key: str | None = None

    def __repr__(self) -> str:
        return f"RunRequest({self.plan.model_title!r})"


class StartRefusedError(Exception):
    """No child was made; `report` says why."""

    def __init__(self, report: ExitReport) -> None:
        super().__init__(report.message)
        self.report = report


class EngineRun:
    """A living child with everything that belongs to it. Callbacks come from threads of its own."""

    def __init__(
        self,
        request: RunRequest,
        *,
        clock: Clock,
        stall_s: float,
        on_log: Callable[[str, str], None],
        on_exit: Callable[[EngineRun], None],
        on_verdict: Callable[[EngineRun, Verdict], None],
    ) -> None:
        """Start it. Raises StartRefusedError."""
        self.request = request
        self._on_log = on_log
        self._secret = _secret_pattern(request.api_key)
        self._was_ready = False
        self._forced = False
        refuse_taken_port(request.plan)
        self._key_file: KeyFile | None = None
        try:
            self._key_file = KeyFile(request.api_key) if request.api_key else None
            command = plan_to_command(request.plan, request.build, self._key_file.path if self._key_file else None)
            self._child = ChildProcess(command, on_lines=self._forward, on_exit=lambda _: on_exit(self))
        except (OSError, ValueError) as error:
            self._remove_key_file()
            raise StartRefusedError(_cannot_start(request.build.server, error)) from error
        self.pid = self._child.pid
        self._note = self._write_note()
        self._watch = ReadinessWatch(
            request.plan,
            self._child,
            request.api_key,
            clock=clock,
            stall_s=stall_s,
            on_verdict=lambda verdict: on_verdict(self, verdict),
        )

    def became_ready(self) -> None:
        """Trouble that was overcome while loading must not explain a later end."""
        self._was_ready = True
        self._child.lines.forget_words()
        self._remove_key_file()

    def ask_to_end(self) -> None:
        """Politely."""
        self._watch.cancel()
        self._child.ask_to_end()

    def end_by_force(self) -> None:
        """At once, the whole group."""
        self._forced = True
        self._child.end_by_force()

    def words(self) -> tuple[str, ...]:
        """The newest log lines."""
        return tuple(self._redact(line) for line in self._child.lines.words())

    def explain(self, *, stop_requested: bool) -> ExitReport:
        """Why it ended; call after it did."""
        facts = ExitFacts(
            exit_code=self._child.exit_code,
            signal=self._child.signal,
            words=self.words(),
            was_ready=self._was_ready,
            stop_requested=stop_requested,
            forced=self._forced,
            kernel_killed=self._child.kernel_killed,
        )
        report = explain_exit(facts, self.request.plan)
        return _name_port_owner(report, self.request.plan) if report.kind == "port-taken" else report

    def clean_up(self) -> None:
        """Undo what the start made; the child is gone."""
        self._watch.cancel()
        self._watch.join(2.0)
        self._child.close(0.5)
        self._remove_key_file()
        if self._note:
            with contextlib.suppress(OSError):
                self._note.unlink(missing_ok=True)

    def _write_note(self) -> Path | None:
        """A folder that cannot be written costs the note, never the engine that runs already."""
        try:
            return note_engine(self.pid, self.request.plan.settings.port)
        except OSError as error:
            self._on_log("kvarn", f"the engine could not be noted for a clean-up after a crash: {error}")
            return None

    def _forward(self, lines: list[str]) -> None:
        for line in lines:
            self._on_log("engine", self._redact(line))

    def _redact(self, line: str) -> str:
        return self._secret.sub("[key]", line) if self._secret else line

    def _remove_key_file(self) -> None:
        if self._key_file:
            with contextlib.suppress(OSError):
                self._key_file.remove()


def _secret_pattern(key: str | None) -> re.Pattern[str] | None:
    """The key itself, and the last four characters the engine prints when it is talkative."""
    return re.compile(re.escape(key) + r"|(?<=api_keys: )\*{4}\S+") if key else None


def refuse_taken_port(plan: LaunchPlan) -> None:
    """Raise StartRefusedError when the engine could not listen where the plan says."""
    problem = port_problem(plan.settings.host, plan.settings.port)
    if problem:
        raise StartRefusedError(ExitReport(kind=problem.code, message=problem.message, remedy=problem.remedy))


def _name_port_owner(report: ExitReport, plan: LaunchPlan) -> ExitReport:
    problem = port_problem(plan.settings.host, plan.settings.port)
    if problem is None:
        return report
    return msgspec.structs.replace(report, message=problem.message, remedy=problem.remedy)


def _cannot_start(server: Path, error: Exception) -> ExitReport:
    return ExitReport(
        kind="engine-missing",
        message=f"The engine {server} could not be started: {error}.",
        remedy="Run `kvarn doctor`: it checks the engine and the folders.",
    )
