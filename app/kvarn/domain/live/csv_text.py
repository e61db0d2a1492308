"""Tables as CSV that a spreadsheet opens as data, never as formulas."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

Cell = str | float | int | None
_ACTIVE = ("=", "+", "-", "@", "\t", "\r")


def csv_bytes(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> bytes:
    """UTF-8 with a header row. Absent cells are empty; text that a spreadsheet would run gets a leading `'`."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([_plain(title) for title in columns])
    writer.writerows([_plain(cell) for cell in row] for row in rows)
    return out.getvalue().encode()


def _plain(cell: Cell) -> Cell:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_ACTIVE) else cell
