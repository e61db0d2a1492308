"""The live figures of one moment: headline cards, the terminal view and `telemetry` JSON lines read this."""

from __future__ import annotations

from typing import Protocol

import msgspec
import numpy as np

from kvarn.domain.live import quantities as q
from kvarn.domain.live.series import Floats

FRESH_S = 6.0
"""A value older than this is no longer 'now': polls come every half second, GPU readings every 5 s at most."""


class LiveReadings(Protocol):
    """What a snapshot needs of the telemetry store."""

    def last_sample(self, name: str) -> tuple[float, float] | None:
        """The newest sample (t, value), NaN for a gap; None when there was never one."""

    def last_finite(self, name: str) -> tuple[float, float] | None:
        """The newest sample of this run that is not a gap."""

    def window(self, name: str, t0_s: float, t1_s: float) -> tuple[Floats, Floats]:
        """Samples between two times."""


class LiveSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Figures as of one moment; None is 'not known now', never zero. Bytes, tokens, tokens per second."""

    decode_tok_per_s: float | None
    prefill_tok_per_s: float | None
    last_decode_tok_per_s: float | None
    """The newest value seen of this engine, for a greyed headline while idle."""
    last_answer_tok_per_s: float | None
    """Decode speed of the last whole answer, as in the list of requests; None before the first."""
    last_prefill_tok_per_s: float | None
    requests_processing: int | None
    requests_deferred: int | None
    context_tokens_used: int | None
    graph_builds_per_min: float | None
    """Compute graphs built in the last minute; None when this engine does not count them."""
    graph_built_total: int | None
    draft_acceptance: float | None
    kv_cells_used: int | None
    """Cells that hold a token, as the engine counts them; None for engines that do not tell. So are the next six."""
    kv_cells: int | None
    checkpoint_bytes: int | None
    prompt_cache_bytes: int | None
    step_decode_ms: float | None
    """Mean over the steps since the look before; None while there was none."""
    step_sampling_ms: float | None
    step_other_ms: float | None
    engine_rss_bytes: int | None
    engine_mapped_bytes: int | None
    engine_private_bytes: int | None
    engine_cpu_percent: float | None
    system_ram_used_bytes: int | None
    system_ram_total_bytes: int | None
    vram_used_bytes: int | None
    vram_total_bytes: int | None
    vram_engine_bytes: int | None
    gpu_util_percent: float | None
    gpu_power_w: float | None
    gpu_temperature_c: float | None

    @property
    def is_idle(self) -> bool:
        """True when the engine answers and works on nothing."""
        return self.requests_processing == 0 and not self.requests_deferred


def snapshot(store: LiveReadings, now_s: float) -> LiveSnapshot:
    """The figures at `now_s`, the store's own monotonic time; well under a millisecond."""

    def now(name: str) -> float | None:
        sample = store.last_sample(name)
        return None if sample is None or sample[0] < now_s - FRESH_S or np.isnan(sample[1]) else sample[1]

    def count(name: str) -> int | None:
        value = now(name)
        return None if value is None else round(value)

    def ever(name: str) -> float | None:
        sample = store.last_finite(name)
        return None if sample is None else sample[1]

    return LiveSnapshot(
        decode_tok_per_s=now(q.DECODE_TOK_PER_S),
        prefill_tok_per_s=now(q.PREFILL_TOK_PER_S),
        last_decode_tok_per_s=ever(q.DECODE_TOK_PER_S),
        last_answer_tok_per_s=ever(q.ANSWER_TOK_PER_S),
        last_prefill_tok_per_s=ever(q.PREFILL_TOK_PER_S),
        requests_processing=count(q.REQUESTS_PROCESSING),
        requests_deferred=count(q.REQUESTS_DEFERRED),
        context_tokens_used=count(q.CONTEXT_TOKENS_USED),
        graph_builds_per_min=_builds_in_last_minute(store, now_s) if now(q.GRAPH_BUILT) is not None else None,
        graph_built_total=count(q.GRAPH_BUILT_TOTAL),
        draft_acceptance=ever(q.DRAFT_ACCEPTANCE),
        kv_cells_used=count(q.KV_CELLS_USED),
        kv_cells=count(q.KV_CELLS),
        checkpoint_bytes=count(q.CHECKPOINT_BYTES),
        prompt_cache_bytes=count(q.PROMPT_CACHE_BYTES),
        step_decode_ms=now(q.STEP_DECODE_MS),
        step_sampling_ms=now(q.STEP_SAMPLING_MS),
        step_other_ms=now(q.STEP_OTHER_MS),
        engine_rss_bytes=count(q.ENGINE_RSS_BYTES),
        engine_mapped_bytes=count(q.ENGINE_MAPPED_BYTES),
        engine_private_bytes=count(q.ENGINE_PRIVATE_BYTES),
        engine_cpu_percent=now(q.ENGINE_CPU_PERCENT),
        system_ram_used_bytes=count(q.SYSTEM_RAM_USED_BYTES),
        system_ram_total_bytes=count(q.SYSTEM_RAM_TOTAL_BYTES),
        vram_used_bytes=count(q.VRAM_USED_BYTES),
        vram_total_bytes=count(q.VRAM_TOTAL_BYTES),
        vram_engine_bytes=count(q.VRAM_ENGINE_BYTES),
        gpu_util_percent=now(q.GPU_UTIL_PERCENT),
        gpu_power_w=now(q.GPU_POWER_W),
        gpu_temperature_c=now(q.GPU_TEMPERATURE_C),
    )


def _builds_in_last_minute(store: LiveReadings, now_s: float) -> float:
    """Builds of the last 60 s; a younger series is not scaled up, so a start never looks like a storm."""
    _, built = store.window(q.GRAPH_BUILT, now_s - 60, now_s)
    return float(np.nansum(built))
