"""What a running engine says about itself at `/props`; our engine adds a `kvarn` object."""

from __future__ import annotations

from typing import Any

import msgspec


class EngineProps(msgspec.Struct, frozen=True, kw_only=True):
    """Facts by the engine's own word; None where this engine does not tell."""

    context_per_slot: int | None
    slots: int | None
    alias: str | None
    model_path: str | None
    build: str | None
    kv_k: str | None = None
    kv_v: str | None = None
    kv_bytes: int | None = None
    recurrent_bytes: int | None = None
    """State of recurrent layers, all slots; 0 for a model without any."""
    ubatch_tokens: int | None = None
    kv_pad: str | None = None
    """`auto` or a number of cells, as in effect."""
    flash_attention: bool | None = None
    speculation: str | None = None
    adaptive_drafts: bool | None = None
    vision: bool | None = None
    kvarn: dict[str, Any] = {}
    """The whole object, for readers that know more of it."""


def props_from_json(content: bytes) -> EngineProps:
    """Read `/props`. Raises msgspec.DecodeError when it is not an object; odd members become None."""
    raw = msgspec.json.decode(content, type=dict[str, Any])
    generation = _object(raw, "default_generation_settings")
    kvarn = _object(raw, "kvarn")
    return EngineProps(
        context_per_slot=_get(generation, "n_ctx", int),
        slots=_get(raw, "total_slots", int),
        alias=_get(raw, "model_alias", str),
        model_path=_get(raw, "model_path", str),
        build=_get(raw, "build_info", str),
        kv_k=_get(kvarn, "kv_k", str),
        kv_v=_get(kvarn, "kv_v", str),
        kv_bytes=_get(kvarn, "kv_bytes", int),
        recurrent_bytes=_get(kvarn, "recurrent_bytes", int),
        ubatch_tokens=_get(kvarn, "ubatch_tokens", int),
        kv_pad=_pad(kvarn.get("kv_pad")),
        flash_attention=_get(kvarn, "flash_attention", bool),
        speculation=_get(_object(generation, "params"), "speculative.types", str),
        adaptive_drafts=_get(_object(kvarn, "speculation"), "adaptive", bool),
        vision=_get(_object(raw, "modalities"), "vision", bool),
        kvarn=kvarn,
    )


def _pad(value: Any) -> str | None:
    return str(value) if value == "auto" or type(value) is int else None


def _object(raw: dict[str, Any], name: str) -> dict[str, Any]:
    value = raw.get(name)
    return value if isinstance(value, dict) else {}


def _get(raw: dict[str, Any], name: str, kind: type) -> Any:
    value = raw.get(name)
    return value if type(value) is kind else None
