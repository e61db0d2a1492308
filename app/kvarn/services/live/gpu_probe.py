"""NVIDIA GPUs through NVML, each field for itself: what a card refuses is absent with the reason, never zero."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

import msgspec
import psutil

from kvarn.services.clock import Clock, SystemClock

RETRY_S = 60.0
"""A driver that is not there is asked again at most this often."""

_SHARED_MEMORY = "this GPU shares the system's memory: the figures are the system's"


class GpuReading(msgspec.Struct, frozen=True, kw_only=True):
    """One card at one look. None is 'not told', with the reason in `reasons` under the field's name."""

    index: int
    name: str | None = None
    memory_total_bytes: int | None = None
    memory_used_bytes: int | None = None
    memory_is_shared: bool = False
    """True when the card has no memory of its own and the figures are the system's RAM."""
    engine_memory_bytes: int | None = None
    """VRAM held by the engine process."""
    utilization_percent: float | None = None
    """Share of time in which any kernel ran; says nothing about memory."""
    power_w: float | None = None
    power_limit_w: float | None = None
    temperature_c: float | None = None
    clock_mhz: float | None = None
    reasons: dict[str, str] = msgspec.field(default_factory=dict)


class GpuProbe:
    """Opens NVML when first asked. `reason` says why there is nothing to read; empty when there is."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._nvml: ModuleType | None = None
        self._handles: list[Any] = []
        self._retry_at = float("-inf")
        self.reason = "no GPU has been looked for yet"
        self.driver_version: str | None = None

    def read(self, engine_pid: int | None = None) -> tuple[GpuReading, ...]:
        """All cards; () when there are none, with `reason` set. Never raises."""
        if self._nvml is None and not self._open():
            return ()
        nvml = self._nvml
        assert nvml is not None
        try:
            readings = tuple(_read_card(nvml, i, handle, engine_pid) for i, handle in enumerate(self._handles))
        except nvml.NVMLError as error:  # only what concerns the whole driver gets here
            self._close_because(_sentence(nvml, error))
            return ()
        return readings

    def close(self) -> None:
        """Let go of the driver."""
        self._close_because("closed")

    def _open(self) -> bool:
        now = self._clock.now()
        if now < self._retry_at:
            return False
        self._retry_at = now + RETRY_S
        try:
            nvml = importlib.import_module("pynvml")
        except ImportError:
            self.reason = "the NVIDIA monitoring module (nvidia-ml-py) is not installed"
            return False
        try:
            nvml.nvmlInit()
            self._nvml = nvml
            self._handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
            self.driver_version = _one(nvml, nvml.nvmlSystemGetDriverVersion)[0]
        except nvml.NVMLError as error:
            self._close_because(_sentence(nvml, error))
            return False
        if not self._handles:
            self._close_because("the NVIDIA driver lists no GPU")
            return False
        self.reason = ""
        return True

    def _close_because(self, reason: str) -> None:
        nvml, self._nvml, self._handles, self.reason = self._nvml, None, [], reason
        self._retry_at = self._clock.now() + RETRY_S
        if nvml is not None:
            with contextlib.suppress(nvml.NVMLError):
                nvml.nvmlShutdown()


def _sentence(nvml: ModuleType, error: Exception) -> str:
    """What a failed driver means for a person."""
    known = {
        "NVMLError_LibraryNotFound": "no NVIDIA driver is installed (its NVML library was not found)",
        "NVMLError_DriverNotLoaded": "the NVIDIA driver is installed but not loaded",
        "NVMLError_LibRmVersionMismatch": "driver and library differ: restart the computer",
        "NVMLError_NoPermission": "this user may not ask the NVIDIA driver",
        "NVMLError_GpuIsLost": "the GPU has dropped off the bus: restart the computer",
    }
    for name, sentence in known.items():
        kind = getattr(nvml, name, None)
        if kind is not None and isinstance(error, kind):
            return sentence
    return f"the NVIDIA driver does not answer: {error}"


def _read_card(nvml: ModuleType, index: int, handle: Any, engine_pid: int | None) -> GpuReading:
    reasons: dict[str, str] = {}

    def ask(field: str, call: Callable[[], Any]) -> Any:
        value, reason = _one(nvml, call)
        if reason:
            reasons[field] = reason
        return value

    memory = ask("memory_used_bytes", lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
    used, total = (memory.used, memory.total) if memory else (None, None)
    is_shared = memory is None and reasons["memory_used_bytes"] == _NOT_OFFERED
    if is_shared:
        ram = psutil.virtual_memory()
        used, total = ram.total - ram.available, ram.total
        reasons["memory_used_bytes"] = _SHARED_MEMORY
    load = ask("utilization_percent", lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu)
    milliwatts = ask("power_w", lambda: nvml.nvmlDeviceGetPowerUsage(handle))
    limit = ask("power_limit_w", lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle))
    engine = ask("engine_memory_bytes", lambda: _memory_of(nvml, handle, engine_pid)) if engine_pid else None
    if engine_pid and engine is None:
        reasons.setdefault("engine_memory_bytes", "the driver does not list the engine among the processes of this GPU")
    return GpuReading(
        index=index,
        name=ask("name", lambda: nvml.nvmlDeviceGetName(handle)),
        memory_total_bytes=total,
        memory_used_bytes=used,
        memory_is_shared=is_shared,
        engine_memory_bytes=engine,
        utilization_percent=load,
        power_w=None if milliwatts is None else milliwatts / 1000,
        power_limit_w=None if limit is None else limit / 1000,
        temperature_c=ask("temperature_c", lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)),
        clock_mhz=ask("clock_mhz", lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)),
        reasons=reasons,
    )


def _memory_of(nvml: ModuleType, handle: Any, pid: int) -> int | None:
    """Bytes the process holds on this card; None when the driver does not list it or will not say."""
    held = [p.usedGpuMemory for p in nvml.nvmlDeviceGetComputeRunningProcesses(handle) if p.pid == pid]
    return None if not held or None in held else sum(held)


_NOT_OFFERED = "this GPU does not offer it"
_WHOLE_DRIVER = (
    "NVMLError_Uninitialized",
    "NVMLError_GpuIsLost",
    "NVMLError_DriverNotLoaded",
    "NVMLError_LibRmVersionMismatch",
)


def _one(nvml: ModuleType, call: Callable[[], Any]) -> tuple[Any, str]:
    """One query: (value, "") or (None, reason). Trouble of the driver as a whole is raised on."""
    try:
        return call(), ""
    except nvml.NVMLError as error:
        kinds = tuple(kind for name in _WHOLE_DRIVER if (kind := getattr(nvml, name, None)))
        if isinstance(error, kinds):
            raise
        return None, _NOT_OFFERED if isinstance(error, nvml.NVMLError_NotSupported) else f"the driver refused: {error}"
