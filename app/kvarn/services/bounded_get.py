"""GET from an engine, which may be anybody's: the answer is bounded in bytes and in seconds, whatever it sends."""

from __future__ import annotations

import time
from typing import NamedTuple

import httpx

MOST_BYTES = 8 << 20
"""Far above any page an engine has; /metrics of ours is 4 kB."""
MOST_S = 5.0


class Answer(NamedTuple):
    """The status code and the body as it came."""

    status: int
    content: bytes


def bounded_get(http: httpx.Client, path: str, query: dict[str, int] | None = None) -> Answer:
    """Read one page. Raises httpx.HTTPError, also for a body that is too long or drips too slowly."""
    end_s = time.monotonic() + MOST_S
    # Unpacking a packed body could make any size of it; `iter_raw` does not, and we ask for none.
    with http.stream("GET", path, params=query, headers={"Accept-Encoding": "identity"}) as response:
        content = bytearray()
        for chunk in response.iter_raw():
            content += chunk
            if len(content) > MOST_BYTES:
                raise httpx.DecodingError(f"{path} answers with more than {MOST_BYTES >> 20} MiB")
            if time.monotonic() > end_s:
                raise httpx.ReadTimeout(f"{path} answers too slowly")
        return Answer(response.status_code, bytes(content))
