"""The last finished requests, newest last; figures only, never a prompt or an answer."""

from __future__ import annotations

import threading
from collections import deque

from kvarn.domain.live.request import FinishedRequest

__all__ = ["FinishedRequest", "RequestLog"]


class RequestLog:
    """A bounded list written by the telemetry thread and read by the screen."""

    def __init__(self, capacity: int = 1000) -> None:
        self._lock = threading.Lock()
        self._requests: deque[FinishedRequest] = deque(maxlen=capacity)
        self._total = 0

    @property
    def revision(self) -> int:
        """How many were ever appended."""
        return self._total

    def append(self, request: FinishedRequest) -> None:
        """Add one."""
        with self._lock:
            self._requests.append(request)
            self._total += 1

    def since(self, revision: int) -> tuple[tuple[FinishedRequest, ...], int]:
        """Those appended after `revision` (0 for all) still held, oldest first, and the revision to go on from.

        Both in one look: a request appended between two would be lost.
        """
        with self._lock:
            new = min(self._total - revision, len(self._requests))
            return tuple(self._requests)[-new:] if new > 0 else (), self._total

    def clear(self) -> None:
        """Forget all; `revision` goes on counting."""
        with self._lock:
            self._requests.clear()
