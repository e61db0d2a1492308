"""A rough size of the compute buffer, for the moment before the engine's dry run answers.

Fitted to what the pinned engine reserves on a CPU: a step's widest moment is the feed-forward part,
beside the attention masks and one row of logits per slot. Within 13 % for a llama, a gemma3 and a
qwen35 model over 31 combinations of context, batch step, slots, cache types and flash attention.
"""

from __future__ import annotations

from kvarn.domain.launch.attention_layout import AttentionLayout
from kvarn.domain.launch.kv_bytes import cache_shape, drafts_with_mtp, step_tokens
from kvarn.domain.launch.launch_plan import FlashAttention, LaunchSettings
from kvarn.domain.library.model_facts import HParam, ModelFacts

_F32, _F16 = 4, 2


def guess_compute_bytes(facts: ModelFacts, layout: AttentionLayout, settings: LaunchSettings) -> int:
    """Bytes of the compute buffers; models of other shapes may be further off than the fitted ones."""
    shape = cache_shape(settings, layout.window_tokens)
    masks = shape.cells + (shape.window_cells if layout.window_tokens else 0)
    embedding, forward = _widest(facts, "embedding_length"), _forward_width(facts)
    per_token = _F32 * (3 * forward + 4 * embedding) + _F16 * masks
    if settings.flash_attention is FlashAttention.OFF and layout.kv:
        # Scores of all heads against every cell, and masks twice as wide.
        scores = _F32 * (_widest(facts, "attention.head_count") + 1) * shape.cells
        per_token = max(per_token + _F16 * masks, scores + _F32 * 6 * embedding)
    logits = settings.slots * (facts.vocab_size or 0) * _F32
    contexts = 2 if layout.mtp and drafts_with_mtp(settings) else 1
    return contexts * (step_tokens(settings) * per_token + logits)


def _forward_width(facts: ModelFacts) -> int:
    """Width of the feed-forward part; with experts, of all that see one token."""
    routed = _widest(facts, "expert_used_count") * _widest(facts, "expert_feed_forward_length")
    state = 2 * _widest(facts, "ssm.inner_size")
    return max(_widest(facts, "feed_forward_length"), routed, state)


def _widest(facts: ModelFacts, key: str) -> int:
    return _largest(facts.hparams.get(key, 0))


def _largest(value: HParam) -> int:
    if isinstance(value, tuple):
        return max((_largest(v) for v in value), default=0)
    return value if isinstance(value, int) and 0 < value < 1 << 24 else 0
