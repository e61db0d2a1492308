"""The engine's /slots: what each slot holds and does right now, and the speeds that follow from it."""

from __future__ import annotations

import msgspec

from kvarn.domain.live.rates import CountSpeed
from kvarn.domain.live.request_wire import Count


class SlotSample(msgspec.Struct, frozen=True, kw_only=True):
    """One slot at one look. Counts are tokens; they return to zero when the request ends, `held_tokens` stays."""

    slot: int
    task: int | None
    """Grows with every request; None before the slot's first."""
    is_processing: bool
    context_tokens: int
    held_tokens: int
    """KV cells in use: prompt and answer so far, also of the finished conversation kept for the next turn."""
    prompt_processed: int
    prompt_cached: int
    decoded: int

    @property
    def is_prefilling(self) -> bool:
        """True while the prompt is being read."""
        return self.is_processing and self.decoded == 0


def has_ended(before: SlotSample, now: SlotSample) -> bool:
    """True when a request ended on this slot between the two looks, even one that began between them as well."""
    if now.task != before.task:
        return before.is_processing or not now.is_processing
    return before.is_processing and not now.is_processing


class _WireToken(msgspec.Struct):
    n_decoded: Count = 0


class _WireSlot(msgspec.Struct):
    id: Count
    is_processing: bool
    n_ctx: Count = 0
    id_task: Count | None = None
    n_prompt_tokens: Count = 0
    n_prompt_tokens_processed: Count = 0
    n_prompt_tokens_cache: Count = 0
    next_token: list[_WireToken] | _WireToken = msgspec.field(default_factory=list)


_decoder = msgspec.json.Decoder(list[_WireSlot])


def parse_slots(body: bytes) -> tuple[SlotSample, ...] | None:
    """Read the JSON of /slots; everything not named here (sampling, prompts) is skipped. None when unreadable."""
    try:
        wires = _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return tuple(_sample(wire) for wire in wires)


def _sample(wire: _WireSlot) -> SlotSample:
    tokens = wire.next_token if isinstance(wire.next_token, list) else [wire.next_token]
    return SlotSample(
        slot=wire.id,
        task=wire.id_task,
        is_processing=wire.is_processing,
        context_tokens=wire.n_ctx,
        held_tokens=wire.n_prompt_tokens,
        prompt_processed=wire.n_prompt_tokens_processed,
        prompt_cached=wire.n_prompt_tokens_cache,
        decoded=max((token.n_decoded for token in tokens), default=0),
    )


class SlotSpeed:
    """Prefill and decode speed of one slot, never blended: each counts its own tokens in its own phase."""

    def __init__(self) -> None:
        self._task: int | None = None
        self._begin()

    def _begin(self) -> None:
        self._decode = CountSpeed(least_s=0.5)
        # A prompt advances by whole batches, often one a look: a mean needs several looks to be true.
        self._prefill = CountSpeed(least_s=1.0)
        self._raw: float | None = None

    def look(self, t_s: float, sample: SlotSample) -> bool:
        """Note one look; True when it brought a new raw decode speed."""
        if sample.task != self._task or not sample.is_processing:
            self._task = sample.task
            self._begin()
        if not sample.is_processing:
            return False
        if sample.is_prefilling:
            self._prefill.look(t_s, sample.prompt_processed)
        raw = self._decode.look(t_s, sample.decoded)
        self._raw = raw if raw is not None else self._raw
        return raw is not None

    def decode_raw(self) -> float | None:
        """From the last advance of the token count; None outside the answer."""
        return self._raw

    def decode(self, now_s: float) -> float | None:
        """Mean of the last 2 s; None outside the answer and in its first half second."""
        return self._decode.mean(now_s)

    def prefill(self, now_s: float, sample: SlotSample) -> float | None:
        """Mean of the last 2 s while the prompt is read; None otherwise and for prompts of one batch."""
        return self._prefill.mean(now_s) if sample.is_prefilling else None
