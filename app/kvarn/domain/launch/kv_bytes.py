"""Bytes the engine allocates for context: K/V cells, recurrent state, the draft block's own cache.

Source: `llama_context` (how n_ctx is padded and split), llama-kv-cache.cpp, llama-kv-cache-iswa.cpp,
llama-memory-recurrent.cpp and `common_speculative_init_result` of the pinned base.
"""

from __future__ import annotations

import msgspec

from kvarn.domain.kv_type import KvType
from kvarn.domain.launch.attention_layout import AttentionLayout, KvGroup
from kvarn.domain.launch.engine_arguments import DRAFT_TOKENS, DRAFT_TOKENS_DEFAULT, argument_value
from kvarn.domain.launch.launch_plan import FlashAttention, LaunchSettings

_DRAFTING = ("draft-mtp", "draft-eagle3", "draft-dflash", "draft-dspark")
"""Kinds of speculation that keep recurrent state for undoing drafted tokens."""


def pad_cells(cells: int) -> int:
    """Round up to the engine's 256-cell grid."""
    return -(-cells // 256) * 256


class CacheShape(msgspec.Struct, frozen=True):
    """How the engine cuts up the context: `streams` caches of `cells` (full) or `window_cells` (windowed) each."""

    streams: int
    cells: int
    window_cells: int

    def of(self, group: KvGroup) -> int:
        """Cells of all streams for layers of this kind."""
        return self.streams * (self.window_cells if group.is_window else self.cells)


def asked_tokens(settings: LaunchSettings) -> int:
    """What `--ctx-size` is given."""
    return settings.context_tokens if settings.kv_unified else settings.context_tokens * settings.slots


def cache_shape(settings: LaunchSettings, window_tokens: int = 0) -> CacheShape:
    """Cells per stream after the engine's rounding. Total and per-slot context are rounded up, in this order."""
    asked = asked_tokens(settings)
    total = pad_cells(asked)
    cells = total if settings.kv_unified else pad_cells(total // settings.slots)
    ubatch = step_tokens(settings)
    sequences = settings.slots if settings.kv_unified else 1
    window = cells if settings.swa_full else pad_cells(min(cells, window_tokens * sequences + ubatch))
    return CacheShape(1 if settings.kv_unified else settings.slots, cells, window)


def step_tokens(settings: LaunchSettings) -> int:
    """Tokens of one compute step: `--ubatch-size`, but no more than the batch or the asked context."""
    return min(settings.ubatch_tokens, settings.batch_tokens, asked_tokens(settings))


def group_bytes(group: KvGroup, cells: int, kv_k: KvType, kv_v: KvType, *, padded_v_row: int | None = None) -> int:
    """Bytes of `cells` tokens in all layers of one kind. Raises ValueError when blocks do not divide a row."""
    v_row = group.v_row if padded_v_row is None or not group.v_row else padded_v_row
    return group.layers * cells * (kv_k.row_bytes(group.k_row) + kv_v.row_bytes(v_row))


def kv_bytes_at(layout: AttentionLayout, kv_k: KvType, kv_v: KvType, depth_tokens: int) -> int:
    """Bytes of K/V that one decode step reads at a depth: windowed layers stop growing at their window."""
    return sum(
        group_bytes(g, min(depth_tokens, layout.window_tokens) if g.is_window else depth_tokens, kv_k, kv_v)
        for g in layout.kv
    )


def padded_v_row(layout: AttentionLayout, settings: LaunchSettings, *, never_flash: bool = False) -> int | None:
    """The V row every layer gets when flash attention is off, None when each keeps its own."""
    off = never_flash or settings.flash_attention is FlashAttention.OFF
    return layout.v_row_max if off else None


def draft_tokens(settings: LaunchSettings) -> int:
    """Tokens drafted at once by the chosen kind of speculation, 0 when it needs no undoing of state."""
    if not any(kind in settings.speculation.split(",") for kind in _DRAFTING):
        return 0
    given = argument_value(settings.extra_args, DRAFT_TOKENS) or ""
    return int(given) if given.isdecimal() else DRAFT_TOKENS_DEFAULT


def recurrent_bytes(layout: AttentionLayout, settings: LaunchSettings) -> int:
    """float32 state of every slot, once more for each token that may have to be undone."""
    kept = 1 + (draft_tokens(settings) if layout.rolls_back else 0)
    return layout.recurrent_layers * layout.recurrent_row * 4 * settings.slots * kept


def drafts_with_mtp(settings: LaunchSettings) -> bool:
    """Whether the model's own prediction block drafts, which loads its weights and makes it a cache."""
    return "draft-mtp" in settings.speculation.split(",")
