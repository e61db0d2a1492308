"""Server-sent events from an engine, which may be anybody's: one that never ends is not waited for."""

from __future__ import annotations

import time
from collections.abc import Iterator

import httpx
from httpx_sse import EventSource, ServerSentEvent

MOST_EVENT_BYTES = 1 << 20
"""Ten times the live state of an engine with as many slots as it can have."""


def bounded_events(response: httpx.Response, most_s: float) -> Iterator[ServerSentEvent]:
    """Each event as it comes, whatever else comes in between.

    Raises SSEError when this is no event stream, httpx.DecodingError for an event that is packed or too long, and
    httpx.ReadTimeout when there are bytes but no whole event within `most_s`.
    """
    if response.headers.get("content-encoding", "identity").strip().lower() != "identity":
        # Unpacking could make any size of it, and we ask for none.
        raise httpx.DecodingError("the events are packed")
    # Events are UTF-8; a charset the server names may be one that Python cannot read text in.
    response.encoding = "utf-8"
    assert isinstance(response.stream, httpx.SyncByteStream)
    response.stream = counted = _Counted(response.stream, most_s)
    for event in EventSource(response).iter_sse():
        yield event
        counted.begin_event()


class _Counted(httpx.SyncByteStream):
    """The bytes of a response as long as the event under way is neither too long nor too slow."""

    def __init__(self, stream: httpx.SyncByteStream, most_s: float) -> None:
        self._stream = stream
        self._most_s = most_s
        self.begin_event()

    def begin_event(self) -> None:
        """What comes from now on belongs to the next event."""
        self._pending = 0
        self._end_s = time.monotonic() + self._most_s

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._stream:
            self._pending += len(chunk)
            if self._pending > MOST_EVENT_BYTES:
                raise httpx.DecodingError(f"an event is longer than {MOST_EVENT_BYTES >> 10:,} KiB")
            if time.monotonic() > self._end_s:
                raise httpx.ReadTimeout("an event comes too slowly")
            yield chunk

    def close(self) -> None:
        """Let go of the connection."""
        self._stream.close()
