"""After one engine has ended, wait until the system has taken its memory back before the next one loads."""

from __future__ import annotations

from collections.abc import Callable

import psutil

LONGEST_S = 5.0
CHECK_EVERY_S = 0.2
_STEADY_BYTES = 64 << 20

FreeBytes = tuple[int, ...]
"""Free RAM first, then the free memory of each GPU."""


def free_ram() -> FreeBytes:
    """What the system could give now."""
    return (int(psutil.virtual_memory().available),)


class MemorySettle:
    """Asked every CHECK_EVERY_S until it says settled: free memory stopped growing, or it took too long."""

    def __init__(self, read_free: Callable[[], FreeBytes], ended_s: float) -> None:
        self._read_free = read_free
        self._ended_s = ended_s
        self._last: FreeBytes | None = None

    def is_settled(self, now_s: float) -> bool:
        """True once two readings agree, or LONGEST_S after the outgoing engine ended."""
        if now_s - self._ended_s >= LONGEST_S:
            return True
        last, self._last = self._last, self._read_free()
        return last is not None and all(new - old < _STEADY_BYTES for old, new in zip(last, self._last, strict=False))
