"""The quiet line at the bottom: the machine, its GPU or why there is none, and the engine build."""

from __future__ import annotations

from collections.abc import Sequence

from kvarn.domain.launch.engine_build import EngineBuild
from kvarn.domain.quantity_text import bytes_text


def machine_text(processor: str, cores: int | None, ram_bytes: int, cards: Sequence[str], no_gpu: str) -> str:
    """`AMD EPYC · 2 cores · 31.2 GiB RAM · no GPU: no NVIDIA driver`."""
    gpu = ", ".join(cards) or (f"no GPU: {no_gpu}" if no_gpu else "")
    parts = (processor, f"{cores} cores" if cores else "", f"{bytes_text(ram_bytes)} RAM", gpu)
    return " · ".join(part for part in parts if part)


def build_text(build: EngineBuild | None, problem: str) -> str:
    """`engine 0.3.36+kvarn.1 · CPU`; the problem's sentence when there is no engine."""
    if build is None:
        return problem
    kind = "engine" if build.is_kvarn else "stock engine"
    return " · ".join((f"{kind} {build.version}", *build.backends))
