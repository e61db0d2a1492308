"""A telemetry link with what it writes into, for tests that watch an engine through it."""

from __future__ import annotations

import math
import time

from kvarn.services.clock import SystemClock
from kvarn.services.live.gpu_probe import GpuProbe
from kvarn.services.live.request_log import RequestLog
from kvarn.services.live.telemetry_link import TelemetryLink
from kvarn.services.live.telemetry_store import TelemetryStore
from patience import HANG_S


class Rig:
    """A link with its store and requests."""

    def __init__(self, gpu: GpuProbe | None = None) -> None:
        self.store, self.requests = TelemetryStore(capacity=4096), RequestLog()
        self.link = TelemetryLink(self.store, self.requests, clock=SystemClock(), gpu_probe=gpu)

    def until(self, condition, seconds: float = HANG_S) -> None:
        end = time.monotonic() + seconds
        while not condition() and time.monotonic() < end:
            time.sleep(0.02)
        assert condition(), self.link.state

    def values(self, name: str) -> list[float]:
        return self.store.window(name, -math.inf, math.inf)[1].tolist()
