"""A memory budget in words: verdict, parts, and how good such predictions have been."""

from __future__ import annotations

from kvarn.domain.launch.memory_budget import MemoryBudget, MemoryKind, MemoryPart
from kvarn.domain.quantity_text import bytes_text

KIND_NAMES = {
    MemoryKind.WEIGHTS: "weights",
    MemoryKind.KV: "KV",
    MemoryKind.RECURRENT: "state",
    MemoryKind.COMPUTE: "compute",
    MemoryKind.MMPROJ: "projector",
    MemoryKind.DRAFT: "draft",
}
TIGHT_SHARE = 0.9
"""From here on the verdict warns: other programs need memory too."""


def verdict(budget: MemoryBudget | None) -> tuple[str, str]:
    """A short sentence and its tone: good, warn, bad or mute."""
    if budget is None:
        return "choose a model", "mute"
    total, free = budget.total_bytes, budget.free_bytes
    if total is None:
        return f"cannot estimate: {budget.unknown}", "warn"
    if free is None:
        return f"needs {bytes_text(total)}; free memory is unknown", "mute"
    if total > free:
        return f"does not fit · {bytes_text(total - free)} too much", "bad"
    if total > free * TIGHT_SHARE:
        return f"tight · {bytes_text(free - total)} to spare", "warn"
    return f"fits · {bytes_text(free - total)} to spare", "good"


def kinds(budget: MemoryBudget) -> tuple[tuple[MemoryKind, str], ...]:
    """For each kind in use its name and size; `~` marks a sum with a guess in it."""
    if budget.unknown:
        return ()
    found = []
    for kind in MemoryKind:
        parts = [part for part in budget.parts if part.kind is kind]
        if parts:
            mark = "~" if any(part.rough for part in parts) else ""
            found.append((kind, f"{KIND_NAMES[kind]} {mark}{bytes_text(sum(part.bytes for part in parts))}"))
    return tuple(found)


def checkpoint_text(budget: MemoryBudget | None) -> str:
    """What comes on top while serving; empty when the model needs no checkpoints."""
    if budget is None or budget.unknown or not budget.checkpoint_bytes:
        return ""
    return f"While serving, up to {bytes_text(budget.checkpoint_bytes)} of RAM for context checkpoints"


def part_text(part: MemoryPart) -> str:
    """`KV, 22 sliding-window layers: 1.2 GiB`, and whether that is exact."""
    sureness = "exact" if part.exact else "rough" if part.rough else "close"
    return f"{part.label}: {bytes_text(part.bytes)}\n{sureness} · {part.bytes:,} bytes"
