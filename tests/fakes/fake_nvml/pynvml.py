"""A stand-in for the NVIDIA monitoring module: put its folder first on the path. FAKE_NVML names the machine:

ok        one healthy card                  two        two of them
nolib     no driver installed               mismatch   driver updated under a running system
shared    memory query refused (one memory for all), no power figures
noload    utilisation and temperature refused
lost      healthy at first, gone from the third memory query on
nocards   a driver without a card           hidden     processes are not listed
"""

from __future__ import annotations

import os
from types import SimpleNamespace

GIB = 1 << 30
NVML_TEMPERATURE_GPU = 0
NVML_CLOCK_SM = 1

inits = 0
_is_up = False
_memory_queries = 0


class NVMLError(Exception):
    """Base of all; the real one maps a code to a subclass."""


class NVMLError_Uninitialized(NVMLError):
    pass


class NVMLError_NotSupported(NVMLError):
    pass


class NVMLError_LibraryNotFound(NVMLError):
    pass


class NVMLError_LibRmVersionMismatch(NVMLError):
    pass


class NVMLError_GpuIsLost(NVMLError):
    pass


def _case() -> str:
    return os.environ.get("FAKE_NVML", "ok")


def _refuse(*cases: str) -> None:
    if not _is_up:
        raise NVMLError_Uninitialized("Uninitialized")
    if _case() in cases:
        raise NVMLError_NotSupported("Not Supported")


def nvmlInit() -> None:
    global _is_up, inits
    inits += 1
    if _case() == "nolib":
        raise NVMLError_LibraryNotFound("NVML Shared Library Not Found")
    if _case() == "mismatch":
        raise NVMLError_LibRmVersionMismatch("RM has detected an NVML/RM version mismatch.")
    _is_up = True


def nvmlShutdown() -> None:
    global _is_up
    _refuse()
    _is_up = False


def nvmlSystemGetDriverVersion() -> str:
    return "590.10"


def nvmlDeviceGetCount() -> int:
    return {"nocards": 0, "two": 2}.get(_case(), 1)


def nvmlDeviceGetHandleByIndex(index: int) -> int:
    return index


def nvmlDeviceGetName(handle: int) -> str:
    return f"Stand-in GPU {handle}"


def nvmlDeviceGetMemoryInfo(handle: int) -> SimpleNamespace:
    global _memory_queries
    _refuse("shared")
    _memory_queries += 1
    if _case() == "lost" and _memory_queries > 2:
        raise NVMLError_GpuIsLost("GPU is lost")
    return SimpleNamespace(total=24 * GIB, used=(3 + handle) * GIB, free=(21 - handle) * GIB)


def nvmlDeviceGetUtilizationRates(handle: int) -> SimpleNamespace:
    _refuse("noload")
    return SimpleNamespace(gpu=37 + handle, memory=12)


def nvmlDeviceGetTemperature(handle: int, sensor: int) -> int:
    _refuse("noload")
    return 55 + handle


def nvmlDeviceGetPowerUsage(handle: int) -> int:
    _refuse("shared")
    return 112_500  # milliwatts


def nvmlDeviceGetEnforcedPowerLimit(handle: int) -> int:
    _refuse("shared")
    return 350_000


def nvmlDeviceGetClockInfo(handle: int, kind: int) -> int:
    _refuse()
    return 1800


def nvmlDeviceGetComputeRunningProcesses(handle: int) -> list[SimpleNamespace]:
    _refuse()
    if _case() == "hidden":
        return []
    ours = SimpleNamespace(pid=os.getpid(), usedGpuMemory=2 * GIB)
    gone = SimpleNamespace(pid=3_999_999, usedGpuMemory=GIB)
    return [ours, gone] if handle == 0 else [gone]
