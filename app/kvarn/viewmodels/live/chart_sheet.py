"""A chart's numbers as a table: what the table view, the CSV export and the cursor's reading are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from kvarn.domain.live.csv_text import Cell, csv_bytes
from kvarn.domain.time_text import ago_text
from kvarn.viewmodels.live.chart_frame import ChartFrame, CurveFrame

ROWS_SHOWN = 400
"""Rows of the table view; the CSV has them all."""


@dataclass(frozen=True)
class Column:
    """One quantity of a chart. `pick` finds its curve in a frame, `text` writes a value with few figures."""

    title: str
    unit: str
    pick: Callable[[ChartFrame], CurveFrame]
    text: Callable[[float], str]

    @property
    def heading(self) -> str:
        """Title for the table view, whose byte cells bring their own unit."""
        return self.title if self.unit == "bytes" else f"{self.title} ({self.unit})"


def wall_text(frame: ChartFrame, x_s: float) -> str:
    """`14:02:31`, local time."""
    return datetime.fromtimestamp(frame.wall_now_s + x_s).strftime("%H:%M:%S")


def cursor_text(frame: ChartFrame, x_s: float) -> str:
    """`14:02:31 · −12 s`, with the events that happened there."""
    events = [mark.text for mark in frame.lines if abs(mark.x_s - x_s) <= _reach(frame)]
    return " · ".join([wall_text(frame, x_s), ago_text(-x_s), *events])


def reading(frame: ChartFrame, columns: Sequence[Column], x_s: float) -> str:
    """The values nearest to a moment: `decode 52.8 · raw 53.1 tok/s`; a dash where there is a gap."""
    values = [(c, c.pick(frame).at(x_s, _reach(frame) + 0.6)) for c in columns]
    parts = [f"{c.title} {'–' if value is None else c.text(value)}" for c, value in values]
    return " · ".join(parts)


def table_rows(frame: ChartFrame, columns: Sequence[Column]) -> list[tuple[str, ...]]:
    """Rows for the table view, newest first; a dash is a gap."""
    rows = _samples(frame, columns)[::-1][:ROWS_SHOWN]
    return [
        (wall_text(frame, x), *("–" if v is None else c.text(v) for c, v in zip(columns, values, strict=True)))
        for x, values in rows
    ]


def sheet_csv(frame: ChartFrame, columns: Sequence[Column]) -> bytes:
    """The whole window with full precision, oldest first; gaps are empty cells."""
    titles = ("time", "seconds_before_export", *(f"{c.title} [{c.unit}]" for c in columns))
    rows: list[list[Cell]] = []
    for x, values in _samples(frame, columns):
        moment = datetime.fromtimestamp(frame.wall_now_s + x).astimezone()
        rows.append([moment.isoformat(timespec="milliseconds"), round(-x, 3), *values])
    return csv_bytes(titles, rows)


def _samples(frame: ChartFrame, columns: Sequence[Column]) -> list[tuple[float, list[float | None]]]:
    """All sample times of all columns, ascending, with each column's value at exactly that time."""
    curves = [c.pick(frame) for c in columns]
    inside = [c.x_s >= -frame.span_s for c in curves]
    times = np.unique(np.concatenate([np.empty(0), *(c.x_s[keep] for c, keep in zip(curves, inside, strict=True))]))
    found = [dict(zip(c.x_s.tolist(), c.values.tolist(), strict=True)) for c in curves]
    rows = ((x, [_finite(f.get(x)) for f in found]) for x in times.tolist())
    return [(x, values) for x, values in rows if any(v is not None for v in values)]


def _finite(value: float | None) -> float | None:
    return value if value is not None and np.isfinite(value) else None


def _reach(frame: ChartFrame) -> float:
    """How far from the pointer something still counts as under it: four pixels of a usual width."""
    return frame.span_s / 200
