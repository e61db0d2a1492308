"""How much context would fit, for the moment a launch does not."""

from __future__ import annotations

import bisect

import msgspec

from kvarn.domain.kv_type import KvType
from kvarn.domain.launch.check_numbers import MAX_CONTEXT_TOKENS, useful_context
from kvarn.domain.launch.estimate import estimate_budget
from kvarn.domain.launch.launch_plan import LaunchSettings, PlanProblem, Severity
from kvarn.domain.launch.memory_budget import MemoryBudget
from kvarn.domain.library.model_entry import ModelEntry
from kvarn.domain.quantity_text import bytes_text

_STEP = 256
"""The engine's grid of cells."""


def largest_context(
    model: ModelEntry, settings: LaunchSettings, kv_k: KvType, kv_v: KvType, free_bytes: int
) -> int | None:
    """The most tokens per slot that fit, all else as chosen; 0 when not even one step does, None when unknown."""

    def total_bytes(steps: int) -> int:
        asked = msgspec.structs.replace(settings, context_tokens=steps * _STEP)
        return estimate_budget(model, asked, kv_k, kv_v, free_bytes=None).total_bytes or 0

    if not total_bytes(1):
        return None
    return _STEP * bisect.bisect_right(range(1, MAX_CONTEXT_TOKENS // _STEP + 1), free_bytes, key=total_bytes)


def fit_problem(
    budget: MemoryBudget, model: ModelEntry, settings: LaunchSettings, kv_k: KvType, kv_v: KvType
) -> PlanProblem | None:
    """A warning when the launch is too large for the free memory, with the context that would fit."""
    if budget.fits is not False or budget.free_bytes is None or budget.total_bytes is None:
        return None
    most = largest_context(model, settings, kv_k, kv_v, budget.free_bytes)
    useful = useful_context(model.facts, settings) if model.facts else None
    remedy = "Choose a smaller cache type or fewer slots, or free memory."
    if most and useful and most >= useful:
        is_trained = model.facts is not None and useful == model.facts.context_train
        what = "that the model was trained for" if is_trained else "that are of use"
        remedy = f"The {useful:,} tokens {what} do fit."
    elif most:
        remedy = f"At most {most:,} tokens fit; a smaller cache type or fewer slots leave room for more."
    return PlanProblem(
        code="does-not-fit",
        message=f"This needs {bytes_text(budget.total_bytes)}; {bytes_text(budget.free_bytes)} are free.",
        remedy=remedy,
        severity=Severity.WARNS,
        field="context_tokens",
    )
