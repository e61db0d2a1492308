"""Whether the numbers of a draft make sense to the engine: context, slots, batches, threads, layers."""

from __future__ import annotations

from collections.abc import Iterator

from kvarn.domain.launch.engine_build import EngineBuild
from kvarn.domain.launch.kv_bytes import cache_shape
from kvarn.domain.launch.launch_plan import LaunchSettings, PlanProblem, Severity
from kvarn.domain.library.model_facts import ModelFacts

MAX_CONTEXT_TOKENS = 1 << 24
"""Beyond any trained context; the engine counts in 32-bit integers."""
MAX_SLOTS = 256
"""LLAMA_MAX_SEQ of the pinned base."""
_MAX_BATCH = 1 << 17
KV_PAD_STEP = 256
MAX_KV_PAD = 1 << 15
"""Bounds of the engine's `--kv-pad`, in cells."""
_MAX_THREADS = 1024
_MAX_LAYERS = 9999


def check_numbers(facts: ModelFacts, settings: LaunchSettings, build: EngineBuild) -> Iterator[PlanProblem]:
    """Problems of the numbers, each with the bound it breaks."""
    useful = useful_context(facts, settings)
    bounds = [
        _bounded("context", "context_tokens", settings.context_tokens, MAX_CONTEXT_TOKENS, "tokens", advised=useful),
        _bounded("number of slots", "slots", settings.slots, MAX_SLOTS, "slots"),
        _bounded("batch", "batch_tokens", settings.batch_tokens, _MAX_BATCH, "tokens"),
        _bounded("micro-batch", "ubatch_tokens", settings.ubatch_tokens, _MAX_BATCH, "tokens"),
        _bounded("cache padding", "kv_pad", settings.kv_pad, MAX_KV_PAD, "cells", low=KV_PAD_STEP),
        _bounded("number of threads", "threads", settings.threads, _MAX_THREADS, "threads"),
        _bounded("number of GPU layers", "gpu_layers", settings.gpu_layers, _MAX_LAYERS, "layers", low=0),
    ]
    broken = [problem for problem in bounds if problem]
    yield from broken
    if not broken:
        yield from _context(facts, settings)
        yield from _batches(settings)
        yield from _padding(settings)
        yield from _gpu(settings, build)


def useful_context(facts: ModelFacts, settings: LaunchSettings) -> int | None:
    """The most context tokens the engine makes use of, which is what the model was trained for; None: unknown."""
    sharing = max(1, settings.slots) if settings.kv_unified else 1
    return facts.context_train * sharing if facts.context_train else None


def _bounded(
    what: str, field: str, value: int | None, high: int, unit: str, *, low: int = 1, advised: int | None = None
) -> PlanProblem | None:
    if value is None or low <= value <= high:
        return None
    return PlanProblem(
        code=f"{field.replace('_', '-')}-out-of-range",
        message=f"The {what} cannot be {value:,}{'' if what.endswith(unit) else f' {unit}'}.",
        remedy=f"Choose between {low:,} and {min(high, advised or high):,} {unit}.",
        field=field,
    )


def _context(facts: ModelFacts, settings: LaunchSettings) -> Iterator[PlanProblem]:
    if settings.context_tokens * settings.slots > MAX_CONTEXT_TOKENS * 8 and not settings.kv_unified:
        yield PlanProblem(
            code="context-tokens-out-of-range",
            message=f"{settings.slots} slots of {settings.context_tokens:,} tokens are more than the engine can count.",
            remedy="Choose fewer slots or a smaller context.",
            field="context_tokens",
        )
        return
    too_long = tuple(_beyond_training(facts, settings))
    yield from too_long
    rounded = cache_shape(settings).cells
    if rounded != settings.context_tokens and not too_long:
        yield PlanProblem(
            code="context-rounded",
            message=f"The engine works in steps of 256 tokens and will make room for {rounded:,} tokens per slot."
            if not settings.kv_unified
            else f"The engine works in steps of 256 tokens and will make room for {rounded:,} tokens.",
            remedy=f"Choose {rounded:,} to get exactly what you ask for.",
            severity=Severity.WARNS,
            field="context_tokens",
        )
    if settings.kv_unified and settings.slots > 1:
        yield PlanProblem(
            code="slots-share-context",
            message=f"{settings.slots} slots share one pool of {settings.context_tokens:,} tokens; "
            "when it is full, requests wait or are cut short.",
            remedy="Switch the shared pool off to give each slot a context of its own.",
            severity=Severity.WARNS,
            field="kv_unified",
        )


def _beyond_training(facts: ModelFacts, settings: LaunchSettings) -> Iterator[PlanProblem]:
    trained, useful = facts.context_train, useful_context(facts, settings)
    if trained and useful and settings.context_tokens > useful:
        yield PlanProblem(
            code="context-above-training",
            message=f"The model was trained for {trained:,} tokens; the engine serves no more than that per slot, "
            "the rest of the memory stays unused.",
            remedy=f"Choose at most {useful:,} tokens.",
            severity=Severity.WARNS,
            field="context_tokens",
        )


def _batches(settings: LaunchSettings) -> Iterator[PlanProblem]:
    if settings.ubatch_tokens > settings.batch_tokens:
        yield PlanProblem(
            code="ubatch-above-batch",
            message=f"A micro-batch of {settings.ubatch_tokens:,} tokens does not fit into a batch of "
            f"{settings.batch_tokens:,}; the engine will use {settings.batch_tokens:,}.",
            remedy="Make the batch at least as large as the micro-batch.",
            severity=Severity.WARNS,
            field="ubatch_tokens",
        )


def _padding(settings: LaunchSettings) -> Iterator[PlanProblem]:
    pad = settings.kv_pad
    if pad is not None and pad % KV_PAD_STEP:
        yield PlanProblem(
            code="kv-pad-not-a-multiple",
            message=f"A cache padding of {pad:,} is not possible; the engine works in steps of {KV_PAD_STEP} cells.",
            remedy=f"Choose auto, or {pad // KV_PAD_STEP * KV_PAD_STEP:,} cells.",
            field="kv_pad",
        )


def _gpu(settings: LaunchSettings, build: EngineBuild) -> Iterator[PlanProblem]:
    if settings.gpu_layers and all(name.upper() in {"CPU", "BLAS"} for name in build.backends):
        yield PlanProblem(
            code="no-gpu-backend",
            message="This engine was built for the CPU alone; GPU layers have no effect.",
            remedy="Leave GPU layers on auto, or use an engine built with CUDA.",
            severity=Severity.WARNS,
            field="gpu_layers",
        )
