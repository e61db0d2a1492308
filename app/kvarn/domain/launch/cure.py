"""Turn a problem's remedy into one change of the settings that really removes it, so that a button can offer it."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator

import msgspec

from kvarn.domain.launch.check_draft import check_draft
from kvarn.domain.launch.engine_build import EngineBuild
from kvarn.domain.launch.kv_bytes import cache_shape
from kvarn.domain.launch.launch_plan import (
    DEFAULT_PORT,
    LOOPBACK,
    FlashAttention,
    LaunchDraft,
    LaunchSettings,
    PlanProblem,
)


class Cure(msgspec.Struct, frozen=True):
    """`label` for a button, and the settings after pressing it."""

    label: str
    settings: LaunchSettings


_Change = tuple[str, dict[str, object]]


def find_cure(problem: PlanProblem, draft: LaunchDraft, build: EngineBuild | None) -> Cure | None:
    """The first known change after which the problem is gone; None when a person has to decide."""
    for label, values in _candidates(problem, draft, build):
        settings = msgspec.structs.replace(draft.settings, **values)
        if settings == draft.settings:
            continue
        left = check_draft(msgspec.structs.replace(draft, settings=settings), build).problems
        if all((p.code, p.message) != (problem.code, problem.message) for p in left) and not _worse(left, problem):
            return Cure(label, settings)
    return None


def _worse(left: tuple[PlanProblem, ...], problem: PlanProblem) -> bool:
    """A change that only renames the trouble in the same field is no cure."""
    return any(p.code == problem.code and p.field == problem.field for p in left) and problem.field != "extra_args"


def _candidates(problem: PlanProblem, draft: LaunchDraft, build: EngineBuild | None) -> Iterator[_Change]:
    settings = draft.settings
    maker = _MAKERS.get(problem.code)
    if maker is not None:
        yield from maker(problem, draft, build)
    elif problem.field == "extra_args":
        yield from _without_an_argument(settings.extra_args)
    elif problem.field in _FALLBACKS:
        label, value = _FALLBACKS[problem.field]
        yield label, {problem.field: value}


def _kv_type(problem: PlanProblem, draft: LaunchDraft, build: EngineBuild | None) -> Iterator[_Change]:
    """The name that was nearly typed, else the nearest kind that fits."""
    offered = [kv.name for kv in build.kv_types] if build else []
    wanted = str(getattr(draft.settings, problem.field, ""))
    near = difflib.get_close_matches(wanted.lower(), offered, n=1, cutoff=0.7)
    for name in (*near, "q8_0", "f16"):
        if name in offered:
            yield f"Use {name}", {problem.field: name}


def _flash(problem: PlanProblem, _draft: LaunchDraft, _build: EngineBuild | None) -> Iterator[_Change]:
    if problem.field == "flash_attention":
        yield "Set flash attention to auto", {"flash_attention": FlashAttention.AUTO}
    yield "Use f16 for V", {"kv_v": "f16"}


def _same_types(_problem: PlanProblem, draft: LaunchDraft, _build: EngineBuild | None) -> Iterator[_Change]:
    yield f"Use {draft.settings.kv_k} for both", {"kv_v": draft.settings.kv_k}


def _context(_problem: PlanProblem, draft: LaunchDraft, _build: EngineBuild | None) -> Iterator[_Change]:
    """What was trained, what the engine rounds to, or the usual."""
    settings = draft.settings
    trained = draft.model.facts.context_train if draft.model and draft.model.facts else None
    usual = LaunchSettings().context_tokens
    pool = settings.slots if settings.kv_unified else 1
    if trained and settings.context_tokens > trained * pool:
        yield f"Use {trained * pool:,} tokens", {"context_tokens": trained * pool}
    if 0 < settings.context_tokens <= 1 << 24 and settings.slots > 0:
        cells = cache_shape(settings).cells
        yield f"Use {cells:,} tokens", {"context_tokens": cells}
    yield f"Use {usual:,} tokens", {"context_tokens": usual}


def _no_speculation(_problem: PlanProblem, _draft: LaunchDraft, _build: EngineBuild | None) -> Iterator[_Change]:
    yield "Switch speculation off", {"speculation": "none"}


def _batch(_problem: PlanProblem, draft: LaunchDraft, _build: EngineBuild | None) -> Iterator[_Change]:
    size = draft.settings.ubatch_tokens
    yield f"Use a batch of {size:,}", {"batch_tokens": size}


def _without_an_argument(arguments: tuple[str, ...]) -> Iterator[_Change]:
    """Each argument left out in turn, together with the value that follows it."""
    for number, word in enumerate(arguments):
        after = number + 1
        if word.startswith("-") and "=" not in word and after < len(arguments) and not arguments[after].startswith("-"):
            after += 1
        option = word.partition("=")[0][:30]
        yield f"Remove {option}", {"extra_args": arguments[:number] + arguments[after:]}


_MAKERS: dict[str, Callable[[PlanProblem, LaunchDraft, EngineBuild | None], Iterator[_Change]]] = {
    "kv-type-not-offered": _kv_type,
    "block-does-not-divide-head": _kv_type,
    "v-needs-flash-attention": _flash,
    "mla-types-differ": _same_types,
    "context-tokens-out-of-range": _context,
    "context-rounded": _context,
    "context-above-training": _context,
    "speculation-not-offered": _no_speculation,
    "speculation-unknown": _no_speculation,
    "no-prediction-block": _no_speculation,
    "no-draft-model": _no_speculation,
    "ubatch-above-batch": _batch,
}
_FALLBACKS: dict[str, tuple[str, object]] = {
    "port": (f"Use port {DEFAULT_PORT}", DEFAULT_PORT),
    "host": ("This computer only", LOOPBACK),
    "alias": ("Use the model's own name", ""),
    "threads": ("Let the engine decide", None),
    "gpu_layers": ("Let the engine decide", None),
    "checkpoints_mib": ("Let the engine decide", None),
    "slots": ("Use one slot", 1),
    "kv_pad": ("Let it grow with the text", None),
    "kv_unified": ("Give each slot its own context", False),
    "batch_tokens": ("Use the usual batch", LaunchSettings().batch_tokens),
    "ubatch_tokens": ("Use the usual micro-batch", LaunchSettings().ubatch_tokens),
}
