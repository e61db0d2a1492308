"""`kvarn models`: what there is to serve, and why a file is not among it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from kvarn.commands.output import fail, print_json
from kvarn.domain.library.model_entry import ModelEntry, ModelSource
from kvarn.domain.library.one_line import one_line
from kvarn.domain.settings import Settings
from kvarn.services.library.catalog import Listing, scan_now
from kvarn.services.settings_store import SettingsStore

_UNKNOWN = "–"
_HEADINGS = ("MODEL", "SIZE", "ARCHITECTURE", "CONTEXT", "SOURCE", "REMARK")


def list_models(
    add: Annotated[Path | None, typer.Option("--add", metavar="DIR", help="Add this folder to the library.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """List the models found on this machine; files that cannot be served come with the reason."""
    store = SettingsStore()
    loaded = store.load()
    for notice in loaded.notices:
        typer.echo(f"kvarn: {notice}", err=True)
    settings = _with_folder(loaded.settings, add) if add else loaded.settings
    listing = scan_now(settings)
    # Only a folder whose scan has ended is remembered: one without end would hold up every later command.
    if settings != loaded.settings:
        store.save(settings)
    if as_json:
        print_json(listing_document(listing))
    elif sys.stdout.isatty():
        Console().print(_table(listing))
    else:
        _print_plain(listing)
    for folder in listing.folders:
        if folder.problem:
            typer.echo(f"kvarn: {folder.problem}", err=True)


def _with_folder(settings: Settings, folder: Path) -> Settings:
    path = os.path.abspath(os.path.expanduser(folder))
    if not os.path.isdir(path):
        fail(f"{one_line(path)} is not a folder.")
    if path in settings.model_folders:
        return settings
    return msgspec.structs.replace(settings, model_folders=(*settings.model_folders, path))


def listing_document(listing: Listing) -> dict[str, Any]:
    """The `--json` document; names are a contract."""
    return {
        "models": [_model_document(entry) for entry in listing.entries],
        "folders": [
            {
                "path": _text(folder.path),
                "source": folder.source,
                "files": folder.files,
                "problem": folder.problem or None,
            }
            for folder in listing.folders
        ],
    }


def _model_document(entry: ModelEntry) -> dict[str, Any]:
    facts = entry.facts
    return {
        "id": entry.id,
        "title": entry.title,
        "path": _text(entry.path),
        "uri": entry.path.as_uri(),
        "paths": [_text(path) for path in entry.paths],
        "source": entry.source,
        "file_bytes": entry.file_bytes,
        "architecture": facts.architecture if facts else None,
        "name": facts.name if facts else None,
        "context_train": facts.context_train if facts else None,
        "vocab_size": facts.vocab_size if facts else None,
        "parameters": facts.tensors.elements_total if facts and facts.tensors else None,
        "tensor_bytes_by_type": facts.tensors.bytes_by_type if facts and facts.tensors else None,
        "mmproj": _text(entry.mmproj) if entry.mmproj else None,
        "mmproj_bytes": entry.mmproj_bytes if entry.mmproj else None,
        "servable": entry.is_servable,
        "problem": {"code": entry.problem.code, "message": entry.problem.message} if entry.problem else None,
    }


def _text(path: Path) -> str:
    """JSON is UTF-8; `uri` keeps a path in other bytes exactly."""
    return os.fsencode(path).decode("utf-8", "replace")


def _row(entry: ModelEntry) -> tuple[str, str, str, str, str, str]:
    facts = entry.facts
    context = f"{facts.context_train:,}" if facts and facts.context_train else _UNKNOWN
    architecture = one_line(facts.architecture, 24) if facts else _UNKNOWN
    title = entry.title if entry.title not in entry.id else ""
    mmproj = "with mmproj" if entry.mmproj else ""
    remark = entry.problem.message if entry.problem else ", ".join(filter(None, (title, mmproj)))
    source = "with Kvarn" if entry.source is ModelSource.STARTER else entry.source
    return entry.id, decimal(entry.file_bytes), architecture, context, source, remark


def _table(listing: Listing) -> Table:
    table = Table(box=None, header_style="bold")
    for heading in _HEADINGS:
        table.add_column(heading, justify="right" if heading in {"SIZE", "CONTEXT"} else "left", overflow="fold")
    for entry in listing.entries:
        style = "" if entry.is_servable else "dim"
        table.add_row(*(Text(cell, style=style) for cell in _row(entry)))
    return table


def _print_plain(listing: Listing) -> None:
    """The headings, then one line a model, fields by tabs: for `cut`, `grep` and people alike."""
    for row in (_HEADINGS, *map(_row, listing.entries)):
        sys.stdout.write("\t".join(row).rstrip("\t") + "\n")
