"""The memory a launch will need, part by part, in bytes."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class MemoryKind(StrEnum):
    """What a part of memory is for; colours and legends follow these names everywhere."""

    WEIGHTS = "weights"
    KV = "kv"
    RECURRENT = "recurrent"
    COMPUTE = "compute"
    MMPROJ = "mmproj"
    DRAFT = "draft"


class MemoryPart(msgspec.Struct, frozen=True, kw_only=True):
    """One addend. `exact` parts equal the engine's allocation to the byte; others are estimates."""

    kind: MemoryKind
    label: str
    """e.g. `KV, 22 sliding-window layers`."""
    bytes: int
    exact: bool
    rough: bool = False
    """A guess that the engine's dry run will replace; screens mark it with a tilde and a hatch."""


class MemoryBudget(msgspec.Struct, frozen=True, kw_only=True):
    """The sum for one launch. `None` means unknown, never zero."""

    parts: tuple[MemoryPart, ...]
    free_bytes: int | None
    """Free now, after the outgoing model's memory is returned."""
    checkpoint_bytes: int = 0
    """RAM that context checkpoints may come to take while serving, whatever the device. Not part of the total, which
    is what a load takes and is graded by."""
    unknown: str = ""
    """Why there is no estimate (layout not understood); empty when there is one."""

    def of(self, kind: MemoryKind) -> int:
        """Bytes of all parts of one kind."""
        return sum(part.bytes for part in self.parts if part.kind is kind)

    @property
    def total_bytes(self) -> int | None:
        """Sum of all parts, None when the layout is not understood."""
        return None if self.unknown else sum(part.bytes for part in self.parts)

    @property
    def fits(self) -> bool | None:
        """Whether the total is within the free bytes; None when either is unknown."""
        total = self.total_bytes
        return None if total is None or self.free_bytes is None else total <= self.free_bytes
