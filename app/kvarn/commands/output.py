"""How every command speaks: JSON or text on stdout, one sentence on stderr, exit 0, 1 or 2."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterable
from typing import Any, NoReturn

import msgspec
import typer

_LIST_WIDTH = 80


def print_json(value: Any) -> None:
    """One JSON document on one line; sizes in bytes, absent is null."""
    text = msgspec.json.encode(value, enc_hook=str).decode()
    if (sys.stdout.encoding or "").lower().replace("-", "") != "utf8":
        text = json.dumps(json.loads(text))  # an old encoding lacks characters; JSON can do without them
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def fail(message: str, detail: str = "") -> NoReturn:
    """End with exit code 1 and a sentence on stderr, the machine's own words beneath."""
    typer.echo(f"kvarn: {message}", err=True)
    if detail:
        typer.echo(detail, err=True)
    raise typer.Exit(1)


def list_text(items: Iterable[str], indent: int) -> str:
    """The items with commas, going on below at the indent when the line is full; no item is broken."""
    whole = ", ".join(item.replace(" ", "\u00a0") for item in items)
    lines = textwrap.wrap(whole, _LIST_WIDTH, break_long_words=False, break_on_hyphens=False)
    return ("\n" + " " * indent).join(lines).replace("\u00a0", " ")
