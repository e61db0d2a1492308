"""The JSON of our engine's /kvarn/requests -> FinishedRequest."""

from __future__ import annotations

import msgspec

from kvarn.domain.live.request import FinishedRequest


class _WireRequest(msgspec.Struct):
    seq: int
    id_slot: int | None = None
    id_task: int | None = None
    cache_n: int | None = None
    prompt_n: int | None = None
    prompt_ms: float | None = None
    predicted_n: int | None = None
    predicted_ms: float | None = None
    ttft_ms: float | None = None
    draft_n: int | None = None
    draft_n_accepted: int | None = None
    error: str = ""


class _WirePage(msgspec.Struct):
    requests: list[_WireRequest]


class RequestBatch(msgspec.Struct, frozen=True):
    """Requests listed since the last look, oldest first, and the number to ask from next."""

    requests: tuple[FinishedRequest, ...]
    last_seq: int | None


_decoder = msgspec.json.Decoder(_WirePage)


def parse_requests(body: bytes, now_s: float) -> RequestBatch | None:
    """Read one page; None when unreadable. `last_seq` is None when the page is empty."""
    try:
        wires = _decoder.decode(body).requests
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return RequestBatch(tuple(_request(wire, now_s) for wire in wires), max((w.seq for w in wires), default=None))


def _request(wire: _WireRequest, now_s: float) -> FinishedRequest:
    return FinishedRequest(
        ended_s=now_s,
        prompt_tokens=wire.prompt_n,
        cached_tokens=wire.cache_n,
        generated_tokens=wire.predicted_n,
        ttft_ms=wire.ttft_ms,
        prefill_tok_per_s=_per_second(wire.prompt_n, wire.prompt_ms),
        # The first token comes out of the prompt's last batch: it costs no step of its own.
        decode_tok_per_s=_per_second(wire.predicted_n and wire.predicted_n - 1, wire.predicted_ms),
        drafted_tokens=wire.draft_n,
        accepted_tokens=wire.draft_n_accepted,
        slot=wire.id_slot,
        task=wire.id_task,
        error=wire.error,
    )


def _per_second(count: int | None, milliseconds: float | None) -> float | None:
    return 1000 * count / milliseconds if count and count > 0 and milliseconds and milliseconds > 0 else None
