"""What stands in the way of a comparison, and the bytes each of its cells takes, by the rules of a launch."""

from __future__ import annotations

from collections.abc import Iterable

from kvarn.domain.compare.kv_pair import KvPair
from kvarn.domain.compare.setup import PROMPT_TOKENS, CellSize
from kvarn.domain.launch.check_draft import check_draft
from kvarn.domain.launch.engine_build import EngineBuild
from kvarn.domain.launch.estimate import estimate_budget
from kvarn.domain.launch.launch_plan import LaunchDraft, LaunchSettings, PlanProblem
from kvarn.domain.launch.memory_budget import MemoryKind
from kvarn.domain.library.model_entry import ModelEntry


def cell_settings(pair: KvPair, depth: int, threads: int | None, gpu_layers: int | None) -> LaunchSettings:
    """The launch whose cache holds that depth and the timed prompt."""
    context = depth + PROMPT_TOKENS
    return LaunchSettings(kv_k=pair.k, kv_v=pair.v, context_tokens=context, threads=threads, gpu_layers=gpu_layers)


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
        needs_bytes=known.total_bytes if known else None,
    )
