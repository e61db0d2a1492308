"""Server-sent events from an engine, which may be anybody's: one that never ends is not waited for."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
from httpx_sse import EventSource, ServerSentEvent

MOST_EVENT_BYTES = 1 << 20
"""Ten times the live state of an engine with as many slots as it can have."""


def bounded_events(response: httpx.Response) -> Iterator[ServerSentEvent]:
    """Each event as it comes. Raises SSEError when this is no event stream, httpx.DecodingError for one too long."""
    if "content-encoding" in response.headers:
        # Unpacking could make any size of it, and we ask for none.
        raise httpx.DecodingError("the events are packed")
    assert isinstance(response.stream, httpx.SyncByteStream)
    response.stream = counted = _Counted(response.stream)
    for event in EventSource(response).iter_sse():
        counted.pending = 0
        yield event


class _Counted(httpx.SyncByteStream):
    """The bytes of a response as long as no more than an event's are `pending`."""

    def __init__(self, stream: httpx.SyncByteStream) -> None:
        self._stream = stream
        self.pending = 0

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._stream:
            self.pending += len(chunk)
            if self.pending > MOST_EVENT_BYTES:
                raise httpx.DecodingError(f"an event is longer than {MOST_EVENT_BYTES >> 10:,} KiB")
            yield chunk

    def close(self) -> None:
        """Let go of the connection."""
        self._stream.close()
