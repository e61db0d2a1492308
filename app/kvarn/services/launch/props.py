"""Asks a running engine for `/props`."""

from __future__ import annotations

import httpx
import msgspec

from kvarn.domain.errors import EngineCallError
from kvarn.domain.launch.engine_props import EngineProps, props_from_json
from kvarn.services.bounded_get import bounded_get


def fetch_props(base_url: str, key: str | None) -> EngineProps:
    """What the engine at `base_url` (without `/v1`) reports. Raises EngineCallError; a refused key is named as such."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        # Loopback never goes through a proxy the user may have set for the web.
        with httpx.Client(base_url=base_url, headers=headers, timeout=5.0, trust_env=False) as http:
            reply = bounded_get(http, "/props")
    except httpx.HTTPError as error:
        raise EngineCallError("The engine did not say how it is set up.", str(error)) from error
    if reply.status == httpx.codes.UNAUTHORIZED:
        raise EngineCallError("The engine refused our API key: wrong key.")
    if reply.status != httpx.codes.OK:
        words = reply.content[:500].decode("utf-8", "replace")
        raise EngineCallError(f"The engine answered {reply.status} when asked how it is set up.", words)
    try:
        return props_from_json(reply.content)
    except (msgspec.DecodeError, RecursionError) as error:
        raise EngineCallError("The engine's description of itself cannot be read.", str(error)) from error
