"""What the engine itself says a launch takes, read from its log of a planning without allocation."""

from __future__ import annotations

import re

import msgspec

_MIB = 1 << 20
_CACHE = re.compile(
    r"llama_kv_cache: size = +(?P<mib>[\d.]+) MiB \( *(?P<cells>\d+) cells, +(?P<layers>\d+) layers, +"
    r"(?P<slots>\d+)/(?P<streams>\d+) seqs\), K \((?P<k>\w+)\): +[\d.]+ MiB, V \((?P<v>\w+)\)"
)
_STATE = re.compile(r"llama_memory_recurrent: size = +([\d.]+) MiB")
_COMPUTE = re.compile(r"(\S+) compute buffer size = +([\d.]+) MiB")
_OUTPUT = re.compile(r"(\S+) +output buffer size = +([\d.]+) MiB")


class CacheReport(msgspec.Struct, frozen=True, kw_only=True):
    """One K/V cache as the engine made it; `bytes` rounded to 0.01 MiB, the counts exact."""

    bytes: int
    cells: int
    layers: int
    streams: int
    kv_k: str
    kv_v: str


class DryRun(msgspec.Struct, frozen=True, kw_only=True):
    """The engine's own figures. Sizes carry the rounding of its log: 0.01 MiB each."""

    caches: tuple[CacheReport, ...]
    recurrent_bytes: int
    compute_by_device: dict[str, int]
    """Compute and output buffers, e.g. `{"CPU": 22554869}`."""
    engine_version: str

    @property
    def compute_bytes(self) -> int:
        """All devices together."""
        return sum(self.compute_by_device.values())


def dry_run_from_log(log: str, engine_version: str) -> DryRun:
    """Read the figures off the engine's log; a line it did not print counts as nothing taken."""
    caches = tuple(
        CacheReport(
            bytes=_bytes(m["mib"]),
            cells=int(m["cells"]),
            layers=int(m["layers"]),
            streams=int(m["streams"]),
            kv_k=m["k"],
            kv_v=m["v"],
        )
        for m in _CACHE.finditer(log)
    )
    compute: dict[str, int] = {}
    for device, mib in [*_COMPUTE.findall(log), *_OUTPUT.findall(log)]:
        compute[device] = compute.get(device, 0) + _bytes(mib)
    return DryRun(
        caches=caches,
        recurrent_bytes=sum(_bytes(mib) for mib in _STATE.findall(log)),
        compute_by_device=compute,
        engine_version=engine_version,
    )


def _bytes(mib: str) -> int:
    return round(float(mib) * _MIB)
