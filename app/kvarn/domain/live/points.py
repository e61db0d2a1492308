"""One sample on its way to the telemetry store."""

from __future__ import annotations

from typing import NamedTuple


class Point(NamedTuple):
    """One sample for the store; value None ends the line."""

    name: str
    t_s: float
    value: float | None
