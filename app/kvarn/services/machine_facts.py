"""What kind of computer this is: facts that do not change while the window is open."""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path

import msgspec
import psutil


class MachineFacts(msgspec.Struct, frozen=True):
    """`cores` are those this process may use, None when nobody tells."""

    processor: str
    cores: int | None
    ram_bytes: int


@cache
def read_machine_facts() -> MachineFacts:
    """Read once: with many cores the one file is neither small nor quick."""
    usable = len(psutil.Process().cpu_affinity()) if hasattr(psutil.Process, "cpu_affinity") else psutil.cpu_count()
    return MachineFacts(_processor_name(), usable, int(psutil.virtual_memory().total))


def _processor_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return " ".join(next(names, platform.machine()).replace("(R)", "").replace("(TM)", "").split())
