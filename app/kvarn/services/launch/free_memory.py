"""How much memory a launch may take: of the GPU when layers go there, else of the machine."""

from __future__ import annotations

from pathlib import Path

import psutil

from kvarn.domain.launch.engine_build import EngineBuild

_CGROUP = Path("/sys/fs/cgroup")


def free_memory_bytes(build: EngineBuild | None, gpu_layers: int | None, *, outgoing_bytes: int = 0) -> int | None:
    """Bytes free once the outgoing model's `outgoing_bytes` are returned; None when nobody tells."""
    on_gpu = build is not None and gpu_layers != 0 and any("CUDA" in name.upper() for name in build.backends)
    free = free_vram_bytes() if on_gpu else free_ram_bytes()
    return None if free is None else free + outgoing_bytes


def free_ram_bytes() -> int:
    """Available RAM, or what a container's limit leaves of it."""
    available = int(psutil.virtual_memory().available)
    left = _left_in_cgroup(_CGROUP)
    return available if left is None else min(available, left)


def _left_in_cgroup(folder: Path) -> int | None:
    """Limit minus use of this control group (v2), page cache counted as free; None without a limit."""
    try:
        limit = (folder / "memory.max").read_text().strip()
        used = int((folder / "memory.current").read_text())
        cached = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):
        return None
    if not limit.isdecimal():
        return None
    return max(0, int(limit) - used + int(cached.get("file", 0)))


def free_vram_bytes() -> int | None:
    """Free memory of all NVIDIA cards together, None without a driver or when it does not answer."""
    import pynvml  # only a CUDA engine needs it, and it is slow to import

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        free = sum(int(pynvml.nvmlDeviceGetMemoryInfo(handle).free) for handle in handles)
        return free if handles else None
    except pynvml.NVMLError:
        return None
    finally:
        pynvml.nvmlShutdown()
