"""How an engine's end is told: to programs by a kind, to people by a sentence and a remedy."""

from __future__ import annotations

import msgspec

PLACE_KINDS = frozenset({"port-taken", "port-out-of-range", "port-privileged", "host-unusable"})
"""Ends of a launch that could not have its port or address; no engine ever served."""


class ExitReport(msgspec.Struct, frozen=True, kw_only=True):
    """Why an engine ended: a kind for programs, a sentence and a remedy for people, its last words."""

    kind: str
    """`stopped`, `out-of-memory`, `bad-model`, `unknown-kv-type`, `port-taken`, `killed`, `crashed`, …"""
    message: str
    remedy: str
    last_words: tuple[str, ...] = ()
    exit_code: int | None = None
    signal: str | None = None
