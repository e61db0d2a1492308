"""The live view of `kvarn serve` on a terminal: state, endpoint, speeds, memory, rebuilds, the newest log lines."""

from __future__ import annotations

from collections import deque

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from kvarn.commands.serve_output import Ready, sentence, speed
from kvarn.domain.launch.engine_status import EnginePhase, EngineStatus, ExitReport
from kvarn.domain.launch.launch_plan import LaunchPlan
from kvarn.domain.live.log_line import LogLine
from kvarn.domain.live.snapshot import LiveSnapshot
from kvarn.domain.quantity_text import ABSENT, bytes_text, count_text

_LINES_SHOWN = 8
_COLOURS = {
    EnginePhase.READY: "green",
    EnginePhase.FAILED: "red",
    EnginePhase.STOPPED: "dim",
}


class TerminalView:
    """Redrawn in place; everything the engine says is shown as text, never as markup."""

    telemetry_every_s = 0.5

    def __init__(self, plan: LaunchPlan, console: Console | None = None) -> None:
        self._plan = plan
        self._status = EngineStatus()
        self._ready: Ready | None = None
        self._now: LiveSnapshot | None = None
        self._lines: deque[str] = deque(maxlen=_LINES_SHOWN)
        self._live = Live(console=console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)

    def status(self, status: EngineStatus) -> None:
        """A new status; the first one opens the view."""
        self._status = status
        if status.phase is not EnginePhase.READY:
            self._ready, self._now = None, None
        if not self._live.is_started:
            self._live.start()
        self._draw()

    def ready(self, ready: Ready) -> None:
        """The endpoint is up."""
        self._ready = ready
        self._draw()

    def telemetry(self, now: LiveSnapshot) -> None:
        """New figures."""
        self._now = now
        self._draw()

    def log(self, lines: tuple[LogLine, ...], lost: int) -> None:
        """Keep the newest few."""
        self._lines.extend(line.text for line in lines)
        self._draw()

    def exit(self, report: ExitReport) -> None:
        """Leave the last picture standing."""
        self._draw()
        self._live.stop()

    def render(self) -> Group:
        """The picture as it is now."""
        return Group(
            self._panel(), *(Text(line, style="dim", no_wrap=True, overflow="ellipsis") for line in self._lines)
        )

    def _draw(self) -> None:
        if self._live.is_started:
            self._live.update(self.render(), refresh=True)

    def _panel(self) -> Panel:
        colour = _COLOURS.get(self._status.phase, "yellow")
        head = Text(sentence(self._ready) if self._ready else self._waiting(), style="bold")
        body: list[Text | Table] = [head, self._figures()] if self._now else [head]
        keys = "Ctrl-C stops" if self._status.is_active else ""
        return Panel(Group(*body), title=Text(f"Kvarn · {self._status.phase}"), subtitle=keys, border_style=colour)

    def _waiting(self) -> str:
        """Why it waits. The reason of a failure comes below the picture, on stderr."""
        report = self._status.report if self._status.is_active else None
        return f"{report.message} {report.remedy}".strip() if report else self._plan.model_title

    def _figures(self) -> Table:
        now = self._now
        assert now is not None
        table = Table.grid(padding=(0, 3))
        memory, what = now.engine_rss_bytes, "memory (RAM)"
        if now.vram_engine_bytes is not None:
            memory, what = now.vram_engine_bytes, "memory (VRAM)"
        builds = None if now.graph_builds_per_min is None else round(now.graph_builds_per_min)
        for name, value in (
            ("decode", _or_last(now.decode_tok_per_s, now.last_decode_tok_per_s)),
            ("prefill", _or_last(now.prefill_tok_per_s, now.last_prefill_tok_per_s)),
            (what, bytes_text(memory)),
            ("graph rebuilds", f"{count_text(builds)} / min"),
            ("KV cells used", count_text(now.context_tokens_used)),
            ("requests", f"{count_text(now.requests_processing)} running, {count_text(now.requests_deferred)} waiting"),
        ):
            table.add_row(Text(name, style="dim"), Text(value))
        return table


def _or_last(now: float | None, last: float | None) -> str:
    if now is None and last is None:
        return f"{ABSENT} tok/s"
    return speed(now) if now is not None else f"{speed(None)}   last {speed(last)}"
