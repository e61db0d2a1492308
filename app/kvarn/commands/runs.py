"""`kvarn runs`: the stored results listed, shown again, exported, deleted."""

from __future__ import annotations

import csv
import sys
from enum import StrEnum
from typing import Annotated, Any

import typer

from kvarn.commands.compare_output import comparison_document, comparison_lines, table_lines
from kvarn.commands.launch_options import Json
from kvarn.commands.output import fail, print_json
from kvarn.domain.compare.steps import is_complete
from kvarn.domain.errors import ResultError
from kvarn.services.compare.compare_store import KIND, CompareStore
from kvarn.services.compare.lab_lock import alone_in_the_lab
from kvarn.services.run_store import RunStore, StoredRun


class Form(StrEnum):
    """What an export looks like."""

    CSV = "csv"
    JSON = "json"


runs = typer.Typer(help="Stored results: list, show, export, delete.", invoke_without_command=True)

Number = Annotated[int, typer.Argument(metavar="RUN", min=1, help="A number that `kvarn runs` lists.")]


@runs.callback()
def list_runs(context: typer.Context, as_json: Json = False) -> None:
    """List what was measured, the newest last."""
    context.obj = as_json
    if context.invoked_subcommand is not None:
        return
    listed = [_listed(run) for run in RunStore().runs()]
    if as_json:
        print_json({"runs": listed})
    elif not listed:
        typer.echo("Nothing has been measured yet; `kvarn compare starter` is a beginning.")
    else:
        head = ("run", "kind", "started (UTC)", "state", "model and types")
        rows = [(str(r["run"]), r["kind"], r["started"][:16].replace("T", " "), _state(r), _about(r)) for r in listed]
        typer.echo("\n".join(table_lines(head, rows)))


def _listed(run: StoredRun) -> dict[str, Any]:
    """One line of the list; a run of a kind or form we do not know is listed all the same."""
    document: dict[str, Any] = {"run": run.id, "kind": run.kind, "title": run.title, "started": run.started}
    pairs, complete = [], None
    if run.kind == KIND:
        store = CompareStore()
        try:
            setup = store.setup(run)
            pairs, complete = [pair.name for pair in setup.pairs], is_complete(setup, store.samples(run))
        except ResultError:
            pass
    return document | {"pairs": pairs, "complete": complete}


def _state(row: dict[str, Any]) -> str:
    return {True: "complete", False: "unfinished", None: "not readable"}[row["complete"]]


def _about(row: dict[str, Any]) -> str:
    return f"{row['title']}: {', '.join(row['pairs'])}" if row["pairs"] else row["title"]


@runs.command("show")
def show(context: typer.Context, number: Number, as_json: Json = False) -> None:
    """Show one run as `kvarn compare` printed it."""
    run, store = _run(number), CompareStore()
    setup, samples = store.setup(run), store.samples(run)
    if as_json or context.obj:
        print_json(comparison_document(run, setup, samples))
    else:
        typer.echo("\n".join(comparison_lines(run, setup, samples)))


@runs.command("export")
def export(number: Number, form: Annotated[Form, typer.Option("--format", help="csv or json.")] = Form.CSV) -> None:
    """Print one run for other programs: a line for each pair and depth, or the document of `show --json`."""
    run, store = _run(number), CompareStore()
    document = comparison_document(run, store.setup(run), store.samples(run))
    if form is Form.JSON:
        print_json(document)
        return
    rows = [_flat(cell) for cell in document["cells"]]
    table = csv.DictWriter(sys.stdout, rows[0].keys(), lineterminator="\n")
    table.writeheader()
    table.writerows(rows)


def _flat(cell: dict[str, Any]) -> dict[str, Any]:
    """`decode_tok_per_s.median` and the like as columns of their own."""
    flat: dict[str, Any] = {}
    for name, value in cell.items():
        flat |= {f"{name}.{part}": v for part, v in value.items()} if isinstance(value, dict) else {name: value}
    return flat


@runs.command("delete")
def delete(context: typer.Context, number: Number, as_json: Json = False) -> None:
    """Delete one run and its figures."""
    with alone_in_the_lab("the figures of this run may be those it is taking"):
        run = _run(number)
        RunStore().delete(run.id)
    if as_json or context.obj:
        print_json({"deleted": run.id})
    else:
        typer.echo(f"Deleted run {run.id}: {run.title}.")


def _run(number: int) -> StoredRun:
    run = RunStore().run(number)
    if run is None:
        fail(f"There is no run {number}; `kvarn runs` lists what there is.")
    return run
