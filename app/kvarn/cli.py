"""The `kvarn` program's commands: a composition root over the same services as the window."""

from __future__ import annotations

import typer

from kvarn.commands import doctor, models, plan, serve
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


def run() -> None:
    """Run one command; a `KvarnError` becomes a sentence and exit code 1."""
    try:
        app()
    except KvarnError as error:
        try:
            fail(str(error), error.detail)
        except typer.Exit as leave:
            raise SystemExit(leave.exit_code) from None
