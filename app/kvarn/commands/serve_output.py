"""What `kvarn serve` prints: JSON lines for programs, plain lines for pipes; the live view is `serve_view`."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec
import typer

from kvarn.commands.output import print_json
from kvarn.domain.launch.engine_props import EngineProps
from kvarn.domain.launch.engine_status import EnginePhase, EngineStatus, ExitReport
from kvarn.domain.launch.launch_plan import LaunchPlan
from kvarn.domain.live.log_line import LogLevel, LogLine
from kvarn.domain.live.snapshot import LiveSnapshot
from kvarn.domain.quantity_text import ABSENT, bytes_text, count_text


class Ready(msgspec.Struct, frozen=True, kw_only=True):
    """The `ready` line; names are a contract. What the engine does not tell is as asked."""

    endpoint: str
    pid: int | None
    model: str
    kv_k: str
    kv_v: str
    context_per_slot: int
    slots: int
    kv_bytes: int | None
    recurrent_bytes: int | None = None
    flash_attention: bool | None = None
    """As the engine decided; None where it does not tell. Like the bytes, never as asked."""
    api_key: bool


def ready_from(status: EngineStatus, plan: LaunchPlan, props: EngineProps | None, *, has_key: bool) -> Ready:
    """By the engine's own word where it tells."""
    s = plan.settings
    return Ready(
        endpoint=plan.endpoint,
        pid=status.pid,
        model=(props.alias if props else None) or plan.alias,
        kv_k=(props.kv_k if props else None) or s.kv_k,
        kv_v=(props.kv_v if props else None) or s.kv_v,
        context_per_slot=(props.context_per_slot if props else None) or s.context_tokens,
        slots=(props.slots if props else None) or s.slots,
        kv_bytes=props.kv_bytes if props else None,
        recurrent_bytes=props.recurrent_bytes if props else None,
        flash_attention=props.flash_attention if props else None,
        api_key=has_key,
    )


class ServeOutput(Protocol):
    """One way to show a run. All methods are called on the main thread."""

    telemetry_every_s: float

    def status(self, status: EngineStatus) -> None:
        """A new status."""

    def ready(self, ready: Ready) -> None:
        """The endpoint is up."""

    def telemetry(self, now: LiveSnapshot) -> None:
        """The live figures, every `telemetry_every_s` while ready."""

    def log(self, lines: tuple[LogLine, ...], lost: int) -> None:
        """New log lines; `lost` before them came too fast to be kept."""

    def exit(self, report: ExitReport) -> None:
        """The last word."""


class JsonOutput:
    """One object a line."""

    telemetry_every_s = 1.0

    def status(self, status: EngineStatus) -> None:
        """`event` = status."""
        message = status.report.message if status.report else None
        facts = {"phase": status.phase, "pid": status.pid, "restarts": status.restarts, "message": message}
        _line("status", facts | {"load_progress": status.load_progress})

    def ready(self, ready: Ready) -> None:
        """`event` = ready."""
        _line("ready", msgspec.to_builtins(ready))

    def telemetry(self, now: LiveSnapshot) -> None:
        """`event` = telemetry."""
        _line("telemetry", msgspec.to_builtins(now))

    def log(self, lines: tuple[LogLine, ...], lost: int) -> None:
        """`event` = log."""
        if lost:
            _line("log", {"source": "kvarn", "level": "warning", "text": f"{lost} lines were not kept"})
        for line in lines:
            _line("log", {"source": line.source, "level": line.level, "text": line.text})

    def exit(self, report: ExitReport) -> None:
        """`event` = exit."""
        _line("exit", msgspec.to_builtins(report))


def _line(event: str, facts: dict[str, Any]) -> None:
    print_json({"event": event} | facts)


class LineOutput:
    """Plain lines for a pipe or a log file. A sentence is written once: the log, a status, stderr may all have it."""

    telemetry_every_s = 10.0

    def __init__(self) -> None:
        self._told = self._held = ""

    def status(self, status: EngineStatus) -> None:
        """The phase, with its reason unless the log has told it or, after a failure, stderr will."""
        reason = status.report.message if status.report else ""
        if status.phase is EnginePhase.FAILED:
            self._held = "" if self._held == reason else self._held
            reason = ""
        self._let_out()
        if not reason or reason != self._told:
            typer.echo(f"kvarn: {status.phase}: {reason}" if reason else f"kvarn: {status.phase}")
        elif status.is_active:
            typer.echo(f"kvarn: {status.phase}")

    def ready(self, ready: Ready) -> None:
        """The sentence people look for."""
        typer.echo(f"kvarn: {sentence(ready)}")

    def telemetry(self, now: LiveSnapshot) -> None:
        """Only while there is something to tell."""
        if not now.is_idle:
            typer.echo(f"kvarn: {figures(now)}")

    def log(self, lines: tuple[LogLine, ...], lost: int) -> None:
        """Each line with its source."""
        if lost:
            typer.echo(f"kvarn: {lost} lines were not kept")
        for line in lines:
            self._let_out()
            if line.source == "kvarn" and line.level is LogLevel.ERROR:
                self._held = line.text
            else:
                self._tell(line.source, line.text)

    def exit(self, report: ExitReport) -> None:
        """Told by the last status already."""
        self._let_out()

    def _let_out(self) -> None:
        """Write an error that turned out not to be the reason of a failure."""
        held, self._held = self._held, ""
        if held:
            self._tell("kvarn", held)

    def _tell(self, source: str, text: str) -> None:
        typer.echo(f"{source}: {text}")
        self._told = text if source == "kvarn" else self._told


def sentence(ready: Ready) -> str:
    """model · K/V types · context per slot · endpoint."""
    slots = "" if ready.slots == 1 else f" · {ready.slots} slots"
    context = f"{count_text(ready.context_per_slot)} tokens per slot{slots}"
    return f"{ready.model} · K {ready.kv_k} · V {ready.kv_v} · {context} · {ready.endpoint}"


def figures(now: LiveSnapshot) -> str:
    """One line of live figures."""
    memory = now.vram_engine_bytes if now.vram_engine_bytes is not None else now.engine_rss_bytes
    rebuilds = count_text(None if now.graph_builds_per_min is None else round(now.graph_builds_per_min))
    return (
        f"decode {speed(now.decode_tok_per_s)} · prefill {speed(now.prefill_tok_per_s)}"
        f" · memory {bytes_text(memory)} · graph rebuilds {rebuilds}/min"
        f" · requests {count_text(now.requests_processing)}"
    )


def speed(tok_per_s: float | None) -> str:
    """`52.8 tok/s`, a dash when nothing is being measured."""
    return f"{ABSENT} tok/s" if tok_per_s is None else f"{tok_per_s:,.1f} tok/s"
