"""The JSON of our engine's `GET /kvarn/requests?since=SEQ` -> FinishedRequest.

`n_prompt_tokens` is the whole prompt, `cache_n` the part found in the cache, `prompt_n` the part computed; times are
the engine's own.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from kvarn.domain.live.rates import per_second
from kvarn.domain.live.request import FinishedRequest

_ERROR_OF = {
    "cancelled": "the client left before the end",
    "too_long": "the prompt is longer than the context of its slot",
    "error": "the engine ended it with an error",
}


Count = Annotated[int, msgspec.Meta(ge=-(1 << 53), le=1 << 53)]
Milliseconds = Annotated[float, msgspec.Meta(ge=-1e15, le=1e15)]
"""Beyond these a page is broken: nothing that follows may overflow."""


class _WireRequest(msgspec.Struct):
    seq: Count
    id_slot: Count | None = None
    id_task: Count | None = None
    finished_unix_ms: Count | None = None
    finish: str = ""
    error: str | None = None
    cache_n: Count | None = None
    n_prompt_tokens: Count | None = None
    prompt_n: Count | None = None
    prompt_ms: Milliseconds | None = None
    predicted_n: Count | None = None
    predicted_ms: Milliseconds | None = None
    queue_ms: Milliseconds | None = None
    ttft_ms: Milliseconds | None = None
    draft_n: Count | None = None
    draft_n_accepted: Count | None = None


class _WirePage(msgspec.Struct):
    last_seq: Count
    requests: list[_WireRequest]


class RequestBatch(msgspec.Struct, frozen=True):
    """Requests listed since the last look, oldest first, and the number to ask from next."""

    requests: tuple[FinishedRequest, ...]
    last_seq: int


_decoder = msgspec.json.Decoder(_WirePage)


def parse_requests(body: bytes, now_s: float) -> RequestBatch | None:
    """Read one page, learned of at `now_s`; None when unreadable."""
    try:
        page = _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return RequestBatch(tuple(_request(wire, now_s) for wire in page.requests), page.last_seq)


def _request(wire: _WireRequest, now_s: float) -> FinishedRequest:
    return FinishedRequest(
        ended_s=now_s,
        finished_unix_ms=wire.finished_unix_ms,
        prompt_tokens=wire.n_prompt_tokens,
        cached_tokens=wire.cache_n,
        generated_tokens=wire.predicted_n,
        queue_ms=wire.queue_ms,
        ttft_ms=wire.ttft_ms,
        prefill_tok_per_s=per_second(wire.prompt_n, wire.prompt_ms),
        # The first token comes out of the prompt's last batch: it costs no step of its own.
        decode_tok_per_s=per_second(wire.predicted_n and wire.predicted_n - 1, wire.predicted_ms),
        drafted_tokens=wire.draft_n,
        accepted_tokens=wire.draft_n_accepted,
        slot=wire.id_slot,
        task=wire.id_task,
        finish=wire.finish,
        error=wire.error or _ERROR_OF.get(wire.finish, ""),
    )
