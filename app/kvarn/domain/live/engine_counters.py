"""Totals and gauges an engine tells; kept apart from their parser, whose library the window's start need not load."""

from __future__ import annotations

import math

import msgspec


class EngineCounters(msgspec.Struct, frozen=True, kw_only=True):
    """Totals since the engine started (tokens, seconds, graphs) and two gauges; None is 'not offered'.

    The engine prints six significant digits, so a total of 1,234,567 arrives as 1.23457e+06.
    """

    prompt_tokens: float | None = None
    """Computed prompt tokens, without those taken from the cache."""
    cached_tokens: float | None = None
    prompt_seconds: float | None = None
    predicted_tokens: float | None = None
    """Grows when a request ends, not while it runs."""
    predicted_seconds: float | None = None
    drafted_tokens: float | None = None
    accepted_tokens: float | None = None
    requests_processing: float | None = None
    requests_deferred: float | None = None
    graph_built: float | None = None
    graph_reused: float | None = None
    graph_rebuilds: dict[str, float] = msgspec.field(default_factory=dict)
    """Rebuilds by the engine's word for the reason."""
    cuda_captured: float | None = None
    dropped: int = 0
    """Values and lines thrown away: not a number, infinite, negative, absurd or illegal."""


def printed_step(value: float) -> float:
    """How much a total can grow before its print of six significant digits changes."""
    return 10.0 ** (math.floor(math.log10(value)) - 5) if value > 0 else 0.0
