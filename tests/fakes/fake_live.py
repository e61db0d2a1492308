"""The stand-in's `/live`: the parts of the contract that a console reads, from the slots the other pages tell about."""

from __future__ import annotations

import itertools
import time
from typing import Any

BORN = time.monotonic()
_answers = itertools.count(1)


def live_object(slots: list[Any], totals: dict[str, Any]) -> dict[str, Any]:
    """One answer of version 1."""
    now_ns = int((time.monotonic() - BORN) * 1e9)
    number = next(_answers)
    running = sum(slot.decoded for slot in slots if slot.busy)
    return {
        "version": 1,
        "seq": number,
        "published": number,
        "start_unix_ms": 1_790_000_000_000,
        "published_ns": now_ns,
        "now_ns": now_ns,
        "state": "ready",
        "slots": [_slot(slot) for slot in slots],
        "requests": {"processing": sum(slot.busy for slot in slots), "waiting": 0},
        "tokens": {
            "prompt_total": totals["prompt"],
            "prompt_cached_total": 0,
            "generated_total": totals["predicted"] + running,
            "prompt_ms_total": totals["prompt_s"] * 1000,
            "generated_ms_total": totals["predicted_s"] * 1000 + sum(slot.decode_ms() for slot in slots if slot.busy),
        },
        "kv": {"caches": [{"cells": 4096, "cells_used": sum(slot.prompt + slot.decoded for slot in slots)}]},
        "graphs": {"ubatches": 7, "built": 3, "reused": 4, "reasons": {"no_previous": 1, "kv_grew": 2}},
        "checkpoints": {"count": 0, "bytes": 0},
        "prompt_cache": None,
    }


def _slot(slot: Any) -> dict[str, Any]:
    busy = slot.busy
    return {
        "id": slot.number,
        "phase": "idle" if not busy else "decode" if slot.decoded else "prefill",
        "task": None if slot.task < 0 else slot.task,
        "n_ctx": 4096,
        "held": slot.prompt + slot.decoded,
        "prompt": {"total": slot.prompt * busy, "cached": 0, "processed": slot.prompt * busy},
        "decoded": slot.decoded * busy,
        "decode_ms": slot.decode_ms() * busy,
    }
