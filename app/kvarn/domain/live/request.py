"""One finished request as the last-requests table shows it."""

from __future__ import annotations

import msgspec


class FinishedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What one request cost, by the engine's own counting; None is 'this engine does not tell'.

    Prompt and answer speeds are apart and exclude waiting. `decode_tok_per_s` counts the steps after the first
    token over the time from first to last token; an answer of one token has none.
    """

    ended_s: float
    """Monotonic time at which we learned of its end."""
    finished_unix_ms: int | None = None
    """Wall-clock time of its end, for showing only."""
    prompt_tokens: int | None = None
    """The whole prompt."""
    cached_tokens: int | None = None
    """The part of the prompt found in the cache and not computed."""
    generated_tokens: int | None = None
    queue_ms: float | None = None
    """Waiting for a slot."""
    ttft_ms: float | None = None
    """From the engine's receipt of the request to its first token, waiting included."""
    prefill_tok_per_s: float | None = None
    decode_tok_per_s: float | None = None
    drafted_tokens: int | None = None
    accepted_tokens: int | None = None
    slot: int | None = None
    task: int | None = None
    finish: str = ""
    """The engine's word: `eos`, `stop_word`, `limit`, `done`, `cancelled`, `too_long`, `error`."""
    error: str = ""
    """A sentence when it did not end well (cancelled, refused, too long); empty otherwise."""

    @property
    def acceptance(self) -> float | None:
        """Accepted over drafted tokens, 0 to 1; None without speculation."""
        if not self.drafted_tokens or self.accepted_tokens is None:
            return None
        return self.accepted_tokens / self.drafted_tokens
