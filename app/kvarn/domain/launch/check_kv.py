"""Which K/V cache types a model can be served with, by the rules of the engine's `llama_init_from_model`."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from kvarn.domain.kv_type import KvType
from kvarn.domain.launch import architectures as arch
from kvarn.domain.launch.attention_layout import AttentionLayout, UnknownLayout, attention_layout
from kvarn.domain.launch.engine_build import EngineBuild
from kvarn.domain.launch.launch_plan import FlashAttention, LaunchSettings, PlanProblem, Severity
from kvarn.domain.library.model_facts import ModelFacts

_SLOW_ON_CUDA = frozenset({"q4_1", "q5_0", "q5_1", "iq4_nl"})
"""No fused CUDA attention in a standard build (ggml-org/llama.cpp#27109)."""
_MIXED_ON_CUDA = frozenset(
    {
        *(("q8_0", kv_v) for kv_v in ("tbq4_0", "planar3_0", "tcq4_0", "tcq3_0")),
        ("tbq4_0", "planar3_0"),
        ("tcq4_0", "tcq3_0"),
    }
)
"""Pairs of different types that our engine compiles an attention kernel for; only it offers these types at all."""


def check_kv(facts: ModelFacts, settings: LaunchSettings, build: EngineBuild) -> Iterator[PlanProblem]:
    """Problems of the chosen K and V types with this model on this engine."""
    kv_k, kv_v = build.kv_type(settings.kv_k), build.kv_type(settings.kv_v)
    if kv_k is None:
        yield _not_offered("K", "kv_k", settings.kv_k, build)
    if kv_v is None:
        yield _not_offered("V", "kv_v", settings.kv_v, build)
    if kv_k is None or kv_v is None:
        return
    yield from _flash_attention(facts, settings, kv_v)
    yield from _cuda(settings, build)
    layout = attention_layout(facts)
    if isinstance(layout, UnknownLayout):
        return
    yield from _blocks(layout, settings, kv_k, kv_v)
    if layout.is_mla and kv_k != kv_v:
        yield PlanProblem(
            code="mla-types-differ",
            message=f"This model keeps K and V in one row, so they need one type; {kv_k.name} and {kv_v.name} differ.",
            remedy=f"Choose {kv_k.name} for both.",
            field="kv_v",
        )
    if layout.is_mla and kv_k.is_rotated:
        yield PlanProblem(
            code="mla-not-rotated",
            message=f"{kv_k.name} stores rotated values; this model keeps K and V in one row, which is not rotated.",
            remedy="Choose q8_0 or q4_0.",
            field="kv_k",
        )


def _not_offered(side: str, field: str, name: str, build: EngineBuild) -> PlanProblem:
    offered = [kv.name for kv in build.kv_types]
    near = difflib.get_close_matches(name.lower(), offered, n=1, cutoff=0.7)
    remedy = f"Did you mean {near[0]}?" if near else f"Choose one of {', '.join(offered)}."
    message = f"This engine does not offer “{name}” as a {side} cache type."
    return PlanProblem(code="kv-type-not-offered", message=message, remedy=remedy, field=field)


def _flash_attention(facts: ModelFacts, settings: LaunchSettings, kv_v: KvType) -> Iterator[PlanProblem]:
    if not kv_v.is_quantised:
        return
    if facts.architecture in arch.NO_FLASH_ATTENTION:
        yield PlanProblem(
            code="v-needs-flash-attention",
            message=f"V as {kv_v.name} needs flash attention, which the engine cannot use with this model.",
            remedy="Choose f16 for V.",
            field="kv_v",
        )
    elif settings.flash_attention is FlashAttention.OFF:
        yield PlanProblem(
            code="v-needs-flash-attention",
            message=f"V as {kv_v.name} needs flash attention, which is switched off.",
            remedy="Set flash attention to auto or on, or choose f16 for V.",
            field="flash_attention",
        )


def _blocks(layout: AttentionLayout, settings: LaunchSettings, kv_k: KvType, kv_v: KvType) -> Iterator[PlanProblem]:
    """Blocks must divide each head; without flash attention the engine only needs them to divide K's row."""
    flash = settings.flash_attention is not FlashAttention.OFF
    whole_heads = flash or kv_k.is_rotated
    k_sizes = layout.k_head_sizes if whole_heads else tuple(group.k_row for group in layout.kv)
    kv_k, kv_v = kv_k.for_heads(layout.k_head_sizes), kv_v.for_heads(layout.v_head_sizes)
    for side, field, kv, sizes in (("K", "kv_k", kv_k, k_sizes), ("V", "kv_v", kv_v, layout.v_head_sizes)):
        odd = next((size for size in sizes if size % kv.block_values), None)
        if odd is not None:
            yield PlanProblem(
                code="block-does-not-divide-head",
                message=f"{kv.name} packs blocks of {kv.block_values} values; this model's {side} heads have {odd}.",
                remedy=_other_type(odd),
                field=field,
            )


def _other_type(head_size: int) -> str:
    """A type that does divide: q4_0 and its kin come in blocks of 32."""
    return "Choose q4_0 or q8_0." if head_size % 32 == 0 else "Choose f16."


def _cuda(settings: LaunchSettings, build: EngineBuild) -> Iterator[PlanProblem]:
    on_gpu = any("CUDA" in name.upper() for name in build.backends) and settings.gpu_layers != 0
    mixed = settings.kv_k != settings.kv_v and (settings.kv_k, settings.kv_v) not in _MIXED_ON_CUDA
    unusual = mixed or settings.kv_k in _SLOW_ON_CUDA
    if on_gpu and unusual:
        yield PlanProblem(
            code="kv-may-run-on-cpu",
            message="This pair of cache types may have no CUDA kernel; attention would then run on the CPU, "
            "which slows long prompts tenfold or more.",
            remedy="Choose the same type for K and V, one of f16, q8_0 and q4_0, or measure before you rely on it.",
            severity=Severity.WARNS,
            field="kv_v",
        )
