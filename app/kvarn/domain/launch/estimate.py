"""The memory a launch will need, part by part, from the header alone: instant, and exact where marked."""

from __future__ import annotations

from kvarn.domain.kv_type import KvType, stock_kv_type
from kvarn.domain.launch import architectures as arch
from kvarn.domain.launch.attention_layout import AttentionLayout, KvGroup, UnknownLayout, attention_layout
from kvarn.domain.launch.checkpoint_bytes import checkpoint_limit_bytes
from kvarn.domain.launch.compute_guess import guess_compute_bytes
from kvarn.domain.launch.engine_arguments import DRAFT_TYPE_K, DRAFT_TYPE_V, argument_value
from kvarn.domain.launch.kv_bytes import (
    cache_shape,
    drafts_with_mtp,
    group_bytes,
    padded_v_row,
    recurrent_bytes,
)
from kvarn.domain.launch.launch_plan import LaunchSettings
from kvarn.domain.launch.memory_budget import MemoryBudget, MemoryKind, MemoryPart
from kvarn.domain.library.model_entry import ModelEntry
from kvarn.domain.library.model_facts import ModelFacts

_F16 = KvType("f16", 1, 2)


def estimate_budget(
    model: ModelEntry,
    settings: LaunchSettings,
    kv_k: KvType,
    kv_v: KvType,
    *,
    free_bytes: int | None,
    compute_bytes: int | None = None,
    ram_bytes: int | None = None,
) -> MemoryBudget:
    """Sum up one launch in well under 5 ms. `compute_bytes` from a dry run replaces the rough guess; `ram_bytes`
    is the machine's, which bounds the checkpoints where the engine chooses.

    A layout we do not understand, or settings no engine accepts, give a budget with `unknown` set
    and no parts. Weights are the tensors' bytes; an engine may repack some of them into a second copy.
    """
    unknown = _why_unknown(model, settings)
    if model.facts is None or unknown:
        return MemoryBudget(parts=(), free_bytes=free_bytes, unknown=unknown)
    layout = attention_layout(model.facts)
    if isinstance(layout, UnknownLayout):
        return MemoryBudget(parts=(), free_bytes=free_bytes, unknown=layout.reason)
    kv_k, kv_v = kv_k.for_heads(layout.k_head_sizes), kv_v.for_heads(layout.v_head_sizes)
    request = _Request(model.facts, layout, settings, kv_k, kv_v)
    misfit = request.misfit()
    if misfit:
        return MemoryBudget(parts=(), free_bytes=free_bytes, unknown=misfit)
    parts = (_weights(model, model.facts, settings), *request.parts(), *_mmproj(model, settings))
    compute = _compute(model.facts, layout, settings, compute_bytes)
    checkpoints = checkpoint_limit_bytes(layout, settings, ram_bytes)
    return MemoryBudget(parts=(*parts, compute), free_bytes=free_bytes, checkpoint_bytes=checkpoints)


def _why_unknown(model: ModelEntry, settings: LaunchSettings) -> str:
    if model.problem is not None:
        return model.problem.message
    if model.facts is None:
        return "The header of this file has not been read."
    numbers = (settings.context_tokens, settings.slots, settings.batch_tokens, settings.ubatch_tokens)
    return "" if min(numbers) > 0 else "Context, slots and batch sizes must be positive."


def _weights(model: ModelEntry, facts: ModelFacts, settings: LaunchSettings) -> MemoryPart:
    tensors = facts.tensors
    if tensors is None:
        return MemoryPart(kind=MemoryKind.WEIGHTS, label="weights, by file size", bytes=model.file_bytes, exact=False)
    left_out = facts.architecture in arch.SKIPS_MTP_WEIGHTS and not drafts_with_mtp(settings)
    loaded = tensors.total_bytes - (tensors.nextn_bytes if left_out else 0)
    return MemoryPart(kind=MemoryKind.WEIGHTS, label="weights", bytes=loaded, exact=False)


class _Request:
    """One model with one choice of types and settings: what its caches take."""

    def __init__(
        self, facts: ModelFacts, layout: AttentionLayout, settings: LaunchSettings, kv_k: KvType, kv_v: KvType
    ) -> None:
        self.layout, self.settings, self.kv_k, self.kv_v = layout, settings, kv_k, kv_v
        self.shape = cache_shape(settings, layout.window_tokens)
        self.padded = padded_v_row(layout, settings, never_flash=facts.architecture in arch.NO_FLASH_ATTENTION)
        self.drafts = bool(layout.mtp) and drafts_with_mtp(settings)
        names = [argument_value(settings.extra_args, flags) for flags in (DRAFT_TYPE_K, DRAFT_TYPE_V)]
        self.draft_types = [(stock_kv_type(name) if name else _F16) for name in names]

    def misfit(self) -> str:
        """Why a type cannot store this model's rows, empty when it can."""
        if self.layout.is_mla and self.kv_k.is_rotated:
            return f"{self.kv_k.name} stores rotated values, and this model's one row for K and V is not rotated."
        draft_k, draft_v = self.draft_types
        k_rows, v_rows = self._rows(self.layout.kv)
        found = _misfit("K", self.kv_k, k_rows) or _misfit("V", self.kv_v, v_rows)
        if found or not self.drafts:
            return found
        k_rows, v_rows = self._rows(self.layout.mtp)
        return _misfit("draft K", draft_k or _F16, k_rows) or _misfit("draft V", draft_v or _F16, v_rows)

    def _rows(self, groups: tuple[KvGroup, ...]) -> tuple[list[int], list[int]]:
        v_rows = [g.v_row if self.padded is None or not g.v_row else self.padded for g in groups]
        return [g.k_row for g in groups], v_rows

    def parts(self) -> list[MemoryPart]:
        """K/V by layer kind, recurrent state, the draft block's cache."""
        parts = [self._kv(group) for group in self.layout.kv]
        if self.layout.recurrent_layers:
            label = f"recurrent state, {self.layout.recurrent_layers} layers"
            size = recurrent_bytes(self.layout, self.settings)
            parts.append(MemoryPart(kind=MemoryKind.RECURRENT, label=label, bytes=size, exact=True))
        return [*parts, self._draft()] if self.drafts else parts

    def _kv(self, group: KvGroup) -> MemoryPart:
        size = group_bytes(group, self.shape.of(group), self.kv_k, self.kv_v, padded_v_row=self.padded)
        return MemoryPart(kind=MemoryKind.KV, label=_label(group, self.layout), bytes=size, exact=True)

    def _draft(self) -> MemoryPart:
        """The prediction block's own cache, f16 unless the extra arguments name other types."""
        k, v = (kv or _F16 for kv in self.draft_types)
        sizes = [group_bytes(g, self.shape.of(g), k, v, padded_v_row=self.padded) for g in self.layout.mtp]
        known = None not in self.draft_types
        return MemoryPart(kind=MemoryKind.DRAFT, label="KV of the prediction block", bytes=sum(sizes), exact=known)


def _misfit(side: str, kv: KvType, rows: list[int]) -> str:
    odd = next((row for row in rows if row % kv.block_values), None)
    if odd is None:
        return ""
    return f"{kv.name} packs blocks of {kv.block_values} values, which do not divide this model's {side} row of {odd}."


def _label(group: KvGroup, layout: AttentionLayout) -> str:
    count = f"{group.layers} layer" + ("s" if group.layers != 1 else "")
    if group.is_window:
        return f"KV, {count} with a window of {layout.window_tokens:,} tokens"
    return f"KV, {count}" + (" with full context" if layout.window_tokens or layout.recurrent_layers else "")


def _mmproj(model: ModelEntry, settings: LaunchSettings) -> tuple[MemoryPart, ...]:
    """The projector's tensors; what it computes with comes on top and is not known beforehand."""
    if model.mmproj is None or not settings.use_mmproj:
        return ()
    return (MemoryPart(kind=MemoryKind.MMPROJ, label="projector", bytes=model.mmproj_bytes, exact=False),)


def _compute(
    facts: ModelFacts, layout: AttentionLayout, settings: LaunchSettings, known_bytes: int | None
) -> MemoryPart:
    guess = guess_compute_bytes(facts, layout, settings) if known_bytes is None else known_bytes
    label = "compute buffer, rough" if known_bytes is None else "compute buffer, by the engine's dry run"
    return MemoryPart(kind=MemoryKind.COMPUTE, label=label, bytes=guess, exact=False, rough=known_bytes is None)
