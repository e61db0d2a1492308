"""`kvarn serve`: the same plan and the same supervisor as the console, without a window."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from kvarn.commands.launch_options import Json, Model, takes_launch_settings
from kvarn.commands.output import fail
from kvarn.commands.serve_loop import ServeLoop
from kvarn.commands.serve_output import JsonOutput, LineOutput, ServeOutput
from kvarn.commands.serve_view import TerminalView
from kvarn.domain.launch.check_draft import check_draft
from kvarn.domain.launch.launch_plan import (
    EVERY_INTERFACE,
    LOOPBACK,
    LaunchDraft,
    LaunchPlan,
    LaunchSettings,
    PlanProblem,
    Severity,
)
from kvarn.domain.launch.restart_policy import NO_RESTARTS, RestartPolicy
from kvarn.services.launch.api_key import KEY_VARIABLE, find_key
from kvarn.services.launch.engine_locator import locate_engine
from kvarn.services.library.catalog import scan_now
from kvarn.services.library.find_model import find_model
from kvarn.services.settings_store import SettingsStore

Port = Annotated[int | None, typer.Option("--port", help="Port to listen on (5827).", metavar="N", show_default=False)]
Host = Annotated[str, typer.Option("--host", help="Address to listen on (127.0.0.1).", show_default=False)]
Lan = Annotated[bool, typer.Option("--lan", help="Listen on all interfaces; needs an API key.")]
Alias = Annotated[str, typer.Option("--alias", help="Name clients see.", metavar="NAME", show_default=False)]
KeyFile = Annotated[
    Path | None,
    typer.Option("--api-key-file", help=f"File with the API key; else {KEY_VARIABLE}.", metavar="FILE"),
]
NoRestart = Annotated[bool, typer.Option("--no-restart", help="Do not start the engine again after a crash.")]


@takes_launch_settings
def serve(
    model: Model,
    settings: LaunchSettings,
    port: Port = None,
    host: Host = "",
    lan: Lan = False,
    alias: Alias = "",
    api_key_file: KeyFile = None,
    no_restart: NoRestart = False,
    as_json: Json = False,
) -> None:
    """Serve MODEL on an OpenAI-compatible endpoint until Ctrl-C."""
    if host and lan:
        raise typer.BadParameter("give either --host or --lan")
    loaded = SettingsStore().load()
    stored = loaded.settings
    for notice in loaded.notices:
        typer.echo(f"kvarn: {notice}", err=True)
    key = find_key(api_key_file)
    open_to_all = lan or (stored.lan and not host)
    address = host or (EVERY_INTERFACE if open_to_all else LOOPBACK)
    chosen = msgspec.structs.replace(
        settings, port=stored.port if port is None else port, host=address, alias=alias or settings.alias
    )
    entry = find_model(model, scan_now(stored))
    build = locate_engine(stored)
    planning = check_draft(LaunchDraft(model=entry, settings=chosen, has_api_key=key is not None), build)
    _tell_problems(planning.problems)
    if planning.plan is None:
        raise typer.Exit(1)
    output = _output(planning.plan, as_json=as_json)
    policy = NO_RESTARTS if no_restart else RestartPolicy()
    report = ServeLoop(entry, planning.plan, build, api_key=key, output=output, policy=policy).run()
    if report.kind != "stopped":
        fail(f"{report.message} {report.remedy}".strip(), "\n".join(report.last_words))


def _tell_problems(problems: tuple[PlanProblem, ...]) -> None:
    for problem in problems:
        mark = "" if problem.severity is Severity.BLOCKS else "note: "
        typer.echo(f"kvarn: {mark}{problem.message} {problem.remedy}", err=True)


def _output(plan: LaunchPlan, *, as_json: bool) -> ServeOutput:
    if as_json:
        return JsonOutput()
    return TerminalView(plan) if sys.stdout.isatty() else LineOutput()
