"""Finished requests of an engine that does not list them, told from /slots and /metrics together.

A request is believed only when everything agrees: one slot alone ended its task between two looks, both pages
speak of the same moment, and the tokens the slot holds equal prompt + cached + answer (less the last token, which
is never stored). Whatever fails the check is counted, not guessed.
"""

from __future__ import annotations

from kvarn.domain.live.engine_counters import EngineCounters, printed_step
from kvarn.domain.live.request import FinishedRequest
from kvarn.domain.live.slots import SlotSample, has_ended

PRECISION = 0.02
"""A speed is given when the printed totals resolve it at least this well."""


class DerivedRequests:
    """Feed it each look at both pages, /slots read first; it answers with the request that ended, if one did."""

    def __init__(self) -> None:
        self._slots: dict[int, SlotSample] = {}
        self._base: EngineCounters | None = None
        """Totals when the last ended request had been accounted for."""
        self._ended: dict[int, SlotSample] = {}
        self.unlisted = 0
        """Requests seen to end whose figures could not be told apart."""

    def look(self, t_s: float, slots: tuple[SlotSample, ...], counters: EngineCounters) -> FinishedRequest | None:
        """The request that ended since the last look, when it can be told for certain."""
        for slot in slots:
            before = self._slots.get(slot.slot)
            if before is not None and has_ended(before, slot):
                self._ended[slot.slot] = slot
        self._slots = {slot.slot: slot for slot in slots}
        base = self._base
        if base is None:
            self._base = counters
            return None
        if not self._ended or counters.requests_processing != sum(slot.is_processing for slot in slots):
            return None  # nothing ended, or something did between the two pages: the next look tells
        ended = tuple(self._ended.values())
        self._ended = {}
        self._base = counters
        request = _request(t_s, ended[0], base, counters) if len(ended) == 1 else None
        self.unlisted += 0 if request else len(ended)
        return request


def _request(t_s: float, slot: SlotSample, base: EngineCounters, now: EngineCounters) -> FinishedRequest | None:
    prompt = _grown(base.prompt_tokens, now.prompt_tokens)
    cached = _grown(base.cached_tokens, now.cached_tokens)
    generated = _grown(base.predicted_tokens, now.predicted_tokens)
    if prompt is None or cached is None or not generated or slot.is_processing:
        return None
    if abs(prompt + cached + generated - 1 - slot.held_tokens) > 1:
        return None
    return FinishedRequest(
        ended_s=t_s,
        prompt_tokens=round(prompt + cached),
        cached_tokens=round(cached),
        generated_tokens=round(generated),
        prefill_tok_per_s=_speed(prompt, base.prompt_seconds, now.prompt_seconds),
        # The first token comes with the prompt's last batch: its time is the prompt's.
        decode_tok_per_s=_speed(generated - 1, base.predicted_seconds, now.predicted_seconds),
        drafted_tokens=_whole(_grown(base.drafted_tokens, now.drafted_tokens)),
        accepted_tokens=_whole(_grown(base.accepted_tokens, now.accepted_tokens)),
        slot=slot.slot,
        task=slot.task,
    )


def _grown(base: float | None, now: float | None) -> float | None:
    return None if base is None or now is None or now < base else now - base


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _speed(tokens: float, base_s: float | None, now_s: float | None) -> float | None:
    seconds = _grown(base_s, now_s)
    if not seconds or tokens < 1 or now_s is None or printed_step(now_s) > seconds * PRECISION:
        return None
    return tokens / seconds
