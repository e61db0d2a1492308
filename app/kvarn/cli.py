"""The `kvarn` program's commands: a composition root over the same services as the window."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import NoReturn

import typer

from kvarn.commands import compare, doctor, models, plan, runs, serve
from kvarn.commands.output import fail
from kvarn.domain.errors import KvarnError

app = typer.Typer(
    name="kvarn",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Serve a local model from this workstation and watch it live. Without a command the console opens.",
)

app.callback()(lambda: None)  # keeps `kvarn COMMAND` a group even with a single command
app.command("models")(models.list_models)
app.command("doctor")(doctor.doctor)
app.command("plan")(plan.plan)
app.command("serve")(serve.serve)
app.command("compare")(compare.compare)
app.add_typer(runs.runs, name="runs")


def run() -> None:
    """Run one command; a `KvarnError` becomes a sentence and exit code 1, and so does output nobody takes."""
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except KvarnError as error:
        _leave(str(error), error.detail)
    except BrokenPipeError:
        _forget_output()
        raise SystemExit(1) from None
    except OSError as error:
        _forget_output()
        _leave(f"This could not be done: {error.strerror or error}.", str(error.filename or ""))


def _leave(message: str, detail: str) -> NoReturn:
    try:
        fail(message, detail)
    except typer.Exit as leave:
        raise SystemExit(leave.exit_code) from None


def _forget_output() -> None:
    """What is still buffered has nowhere to go; the interpreter would complain about it at its end."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
