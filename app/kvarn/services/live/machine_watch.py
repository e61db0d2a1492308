"""Writes what machine, engine process and GPU use into the telemetry store, once a second."""

from __future__ import annotations

from kvarn.domain.live import quantities as q
from kvarn.services.clock import Clock
from kvarn.services.live.gpu_probe import GpuProbe, GpuReading
from kvarn.services.live.machine_probe import MachineProbe
from kvarn.services.live.telemetry_store import TelemetryStore

MACHINE_S = 1.0

_MACHINE = {
    q.SYSTEM_RAM_TOTAL_BYTES: "ram_total_bytes",
    q.SYSTEM_RAM_USED_BYTES: "ram_used_bytes",
    q.SYSTEM_CPU_PERCENT: "cpu_percent",
    q.ENGINE_RSS_BYTES: "engine_rss_bytes",
    q.ENGINE_MAPPED_BYTES: "engine_mapped_bytes",
    q.ENGINE_PRIVATE_BYTES: "engine_private_bytes",
    q.ENGINE_CPU_PERCENT: "engine_cpu_percent",
}
_GPU_SUMS = {
    q.VRAM_TOTAL_BYTES: "memory_total_bytes",
    q.VRAM_USED_BYTES: "memory_used_bytes",
    q.VRAM_ENGINE_BYTES: "engine_memory_bytes",
    q.GPU_POWER_W: "power_w",
}
_GPU_PEAKS = {
    q.GPU_UTIL_PERCENT: "utilization_percent",
    q.GPU_TEMPERATURE_C: "temperature_c",
    q.GPU_CLOCK_MHZ: "clock_mhz",
}


class MachineWatch:
    """Looks when asked; used by one thread."""

    def __init__(self, store: TelemetryStore, clock: Clock, gpu_probe: GpuProbe | None) -> None:
        self._store, self._clock, self._gpu = store, clock, gpu_probe
        self._machine = MachineProbe()
        self._gpu_due_s = float("-inf")
        self.gpu_every_s = MACHINE_S
        """Seconds between looks at the GPU; may be changed at any time."""
        self.due_s = float("-inf")
        self.cards: tuple[GpuReading, ...] = ()
        """As of the last look."""
        self.absent: dict[str, str] = {}
        """GPU quantity -> why no card tells it."""

    def look(self, engine_pid: int | None) -> None:
        """Read what is due, and set when that is again."""
        self.due_s = self._clock.now() + MACHINE_S
        reading, t_s = self._machine.read(engine_pid), self._clock.now()
        for name, field in _MACHINE.items():
            self._store.put(name, t_s, getattr(reading, field))
        # Looks come every second: an interval between two of them waits for the next.
        if self._gpu is not None and t_s >= self._gpu_due_s:
            self._gpu_due_s = t_s + self.gpu_every_s - MACHINE_S / 2
            self._look_at_gpu(self._gpu, engine_pid, t_s)

    def close(self) -> None:
        """Let go of the driver."""
        if self._gpu is not None:
            self._gpu.close()

    def _look_at_gpu(self, gpu: GpuProbe, engine_pid: int | None, t_s: float) -> None:
        self.cards = gpu.read(engine_pid)
        for fields, combine in ((_GPU_SUMS, sum), (_GPU_PEAKS, max)):
            for name, field in fields.items():
                told = [value for card in self.cards if (value := getattr(card, field)) is not None]
                self._store.put(name, t_s, float(combine(told)) if told else None)
        self.absent = _absence(self.cards, gpu.reason)


def _absence(cards: tuple[GpuReading, ...], reason: str) -> dict[str, str]:
    """Why each GPU quantity no card tells is absent."""
    fields = _GPU_SUMS | _GPU_PEAKS
    untold = {name: field for name, field in fields.items() if all(getattr(card, field) is None for card in cards)}
    return {name: next((c.reasons[f] for c in cards if f in c.reasons), reason) for name, f in untold.items()}
