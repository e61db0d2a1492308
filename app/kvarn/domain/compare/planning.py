"""What stands in the way of a comparison, and the bytes each of its cells takes, by the rules of a launch."""

from __future__ import annotations

from collections.abc import Iterable

from kvarn.domain.compare.kv_pair import KvPair
from kvarn.domain.compare.setup import CellSize
from kvarn.domain.launch.check_draft import check_draft
from kvarn.domain.launch.engine_build import EngineBuild
from kvarn.domain.launch.estimate import estimate_budget
from kvarn.domain.launch.launch_plan import LaunchDraft, LaunchSettings, PlanProblem
from kvarn.domain.launch.memory_budget import MemoryKind
from kvarn.domain.library.model_entry import ModelEntry


def cell_settings(pair: KvPair, context: int, threads: int | None, gpu_layers: int | None) -> LaunchSettings:
    """The launch of that context, without the projector, which nothing here loads."""
    return LaunchSettings(
        kv_k=pair.k,
        kv_v=pair.v,
        context_tokens=context,
        threads=threads,
        gpu_layers=gpu_layers,
        use_mmproj=False,
    )


def comparison_problems(
    entry: ModelEntry, build: EngineBuild, settings: Iterable[LaunchSettings]
) -> tuple[PlanProblem, ...]:
    """Each problem of any cell once, in the order met."""
    drafts = (LaunchDraft(model=entry, settings=one) for one in settings)
    found = (problem for draft in drafts for problem in check_draft(draft, build).problems)
    return tuple({(problem.code, problem.message): problem for problem in found}.values())


def cell_size(entry: ModelEntry, build: EngineBuild, pair: KvPair, depth: int, settings: LaunchSettings) -> CellSize:
    """Exact where the layout is understood; the compute buffer within `needs_bytes` is a guess."""
    k, v = build.kv_type(pair.k), build.kv_type(pair.v)
    budget = estimate_budget(entry, settings, k, v, free_bytes=None) if k and v else None
    known = budget if budget and not budget.unknown else None
    return CellSize(
        pair=pair,
        depth=depth,
        context_tokens=settings.context_tokens,
        kv_bytes=known.of(MemoryKind.KV) if known else None,
        weights_bytes=known.of(MemoryKind.WEIGHTS) if known else None,
        needs_bytes=known.total_bytes if known else None,
    )


def needs_together(sizes: Iterable[CellSize]) -> int | None:
    """One copy of the weights, and the rest of each; None when one is not known."""
    total = 0
    weights = 0
    for size in sizes:
        if size.needs_bytes is None or size.weights_bytes is None:
            return None
        weights = size.weights_bytes
        total += size.needs_bytes - size.weights_bytes
    return total + weights
