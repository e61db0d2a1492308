"""A logarithmic scale for context lengths: every octave takes the same way on a slider."""

from __future__ import annotations

import math

SMALLEST_TOKENS = 256
"""Also the grain: the engine pads a context to multiples of 256."""
STEPS_PER_OCTAVE = 8


def last_position(most_tokens: int) -> int:
    """The slider position that means `most_tokens`; at least 1, so that a slider has a way to go."""
    return max(1, math.ceil(_octaves(most_tokens) * STEPS_PER_OCTAVE))


def tokens_at(position: int, most_tokens: int) -> int:
    """Tokens at a position from 0: multiples of 256 in between, exactly `most_tokens` at the end."""
    if position >= last_position(most_tokens):
        return max(most_tokens, SMALLEST_TOKENS)
    raw = SMALLEST_TOKENS * 2 ** (max(position, 0) / STEPS_PER_OCTAVE)
    return min(round(raw / SMALLEST_TOKENS) * SMALLEST_TOKENS, max(most_tokens, SMALLEST_TOKENS))


def position_of(tokens: int, most_tokens: int) -> int:
    """The nearest position; values beyond either end sit at that end."""
    nearest = round(_octaves(tokens) * STEPS_PER_OCTAVE)
    return min(nearest, last_position(most_tokens)) if tokens < most_tokens else last_position(most_tokens)


def _octaves(tokens: int) -> float:
    return math.log2(max(tokens, SMALLEST_TOKENS) / SMALLEST_TOKENS)
