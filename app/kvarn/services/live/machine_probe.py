"""RAM and CPU of the machine and of the engine process."""

from __future__ import annotations

import time

import msgspec
import psutil

LEAST_INTERVAL_S = 0.5


class MachineReading(msgspec.Struct, frozen=True, kw_only=True):
    """One look; bytes and percent. None is 'this system does not tell' or, for the engine, 'no such process'.

    The engine's RSS is split without PSS: reading PSS walks every page under the engine's own memory lock, which
    for mapped weights of many gigabytes would slow what we measure.
    """

    ram_total_bytes: int
    ram_available_bytes: int
    ram_used_bytes: int
    """Total less available: what a new load cannot have. Cached files are available and not in it."""
    cpu_percent: float | None
    """Of the whole machine, 0 to 100."""
    engine_rss_bytes: int | None = None
    engine_mapped_bytes: int | None = None
    """File-backed share of the RSS: mapped weights and program code. Linux only."""
    engine_private_bytes: int | None = None
    engine_cpu_percent: float | None = None
    """100 is one core busy."""


class MachineProbe:
    """Looks when asked; CPU shares are of the time since the look before, so the first has none."""

    def __init__(self) -> None:
        self._engine: psutil.Process | None = None
        self._looked_s = float("-inf")
        self._cpu_percent: float | None = None
        self._engine_has_looked = False

    def read(self, engine_pid: int | None = None) -> MachineReading:
        """One look; costs well under a millisecond and never raises."""
        ram = psutil.virtual_memory()
        cpu = self._share_of_cores()
        reading = MachineReading(
            ram_total_bytes=ram.total,
            ram_available_bytes=ram.available,
            ram_used_bytes=ram.total - ram.available,
            cpu_percent=cpu,
        )
        return msgspec.structs.replace(reading, **self._engine_part(engine_pid))

    def _share_of_cores(self) -> float | None:
        """Percent since the look before, or what that one said when it was a moment ago: a tick tells nothing."""
        now = time.monotonic()
        if now - self._looked_s >= LEAST_INTERVAL_S:
            percent = psutil.cpu_percent(interval=None)
            self._cpu_percent = percent if self._looked_s > 0 else None
            self._looked_s = now
        return self._cpu_percent

    def _engine_part(self, pid: int | None) -> dict[str, float | None]:
        try:
            engine = self._process(pid)
            if engine is None:
                return {}
            with engine.oneshot():
                memory, cpu = engine.memory_info(), engine.cpu_percent(interval=None)
        except psutil.Error:
            self._engine = None
            return {}
        mapped = getattr(memory, "shared", None)
        first, self._engine_has_looked = not self._engine_has_looked, True
        return {
            "engine_rss_bytes": memory.rss,
            "engine_mapped_bytes": mapped,
            "engine_private_bytes": None if mapped is None else memory.rss - mapped,
            "engine_cpu_percent": None if first else cpu,
        }

    def _process(self, pid: int | None) -> psutil.Process | None:
        """The process handle, kept: it knows its start time and so is not fooled by a reused pid."""
        if pid is None:
            self._engine = None
        elif self._engine is None or self._engine.pid != pid:
            self._engine, self._engine_has_looked = psutil.Process(pid), False
        return self._engine if self._engine is not None and self._engine.is_running() else None
