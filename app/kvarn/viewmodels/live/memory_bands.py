"""Readings and budget -> the memory stack: what is measured stays solid, what is only planned is marked."""

from __future__ import annotations

import numpy as np

from kvarn.domain.launch.memory_budget import MemoryBudget, MemoryKind
from kvarn.domain.live.series import Floats
from kvarn.viewmodels.live.chart_frame import CurveFrame, MemoryBand

WEIGHTS, KV, COMPUTE, OTHER, STRANGERS = "weights", "kv", "compute", "other", "strangers"


def ram_bands(mapped: CurveFrame, private: CurveFrame, budget: MemoryBudget | None) -> tuple[MemoryBand, ...]:
    """The engine's resident memory: the mapped model file, then its private memory split as planned.

    The operating system tells only the private sum, so KV and compute are the planned sizes, cut to what
    is there, and `other` is the measured rest. Both curves share their times.
    """
    if len(mapped.values) != len(private.values):
        return ()
    split = _split(private.values, _planned(budget))
    return (
        MemoryBand(WEIGHTS, "weights", mapped),
        *(MemoryBand(key, label, CurveFrame(private.x_s, part), planned) for key, label, part, planned in split),
    )


def vram_bands(used: CurveFrame, engine: CurveFrame, budget: MemoryBudget | None) -> tuple[MemoryBand, ...]:
    """The card's memory: the engine's share split as planned, then everybody else."""
    aligned = len(engine.values) == len(used.values) and not engine.is_empty
    own = engine.values if aligned else used.values
    parts = [(WEIGHTS, "weights", MemoryKind.WEIGHTS)] if budget else []
    plan = [(key, label, float(budget.of(kind))) for key, label, kind in parts if budget] + _planned(budget)
    bands = [MemoryBand(k, lab, CurveFrame(used.x_s, v), p) for k, lab, v, p in _split(own, plan)]
    if aligned:
        rest = np.maximum(used.values - own, 0)
        bands.append(MemoryBand(STRANGERS, "not ours", CurveFrame(used.x_s, rest)))
    return tuple(bands)


def _planned(budget: MemoryBudget | None) -> list[tuple[str, str, float]]:
    if budget is None:
        return []
    kv = float(budget.of(MemoryKind.KV) + budget.of(MemoryKind.RECURRENT))
    return [(KV, "KV", kv), (COMPUTE, "compute", float(budget.of(MemoryKind.COMPUTE)))]


def _split(total: Floats, plan: list[tuple[str, str, float]]) -> list[tuple[str, str, Floats, bool]]:
    """Cut `total` into the planned parts, never more than is there; the rest is `other`."""
    left, out = total, []
    for key, label, amount in plan:
        part = np.minimum(left, amount)
        out.append((key, label, part, True))
        left = left - part
    return [*out, (OTHER, "other", left, False)]
