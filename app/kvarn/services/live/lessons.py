"""What a run teaches for the next plan: how good the memory prediction was, how fast this machine decodes."""

from __future__ import annotations

import logging

import msgspec
import numpy as np

from kvarn.domain.kv_type import KvType
from kvarn.domain.launch.decode_speed import DecodeMeasurement, step_bytes
from kvarn.domain.launch.engine_build import EngineBuild
from kvarn.domain.launch.launch_plan import LaunchSettings
from kvarn.domain.launch.memory_budget import MemoryBudget
from kvarn.domain.library.model_entry import ModelEntry
from kvarn.domain.live import quantities as q
from kvarn.domain.live.request import FinishedRequest
from kvarn.services.launch.calibration_store import CalibrationStore
from kvarn.services.launch.grade_store import GradeStore
from kvarn.services.live.request_log import RequestLog
from kvarn.services.live.telemetry_store import TelemetryStore

log = logging.getLogger(__name__)

SETTLED_S = 3.0
"""After the load, until its memory is all touched and read at least once."""
LEAST_TOKENS = 32
"""Shorter answers say little about decode speed."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One launch as it was planned."""

    model: ModelEntry
    settings: LaunchSettings
    kv_k: KvType
    kv_v: KvType
    budget: MemoryBudget | None
    build: EngineBuild


class Lessons:
    """Call `begin` at a launch and `look` now and then while it serves; cheap when there is nothing new."""

    def __init__(
        self, store: TelemetryStore, requests: RequestLog, grades: GradeStore, calibration: CalibrationStore
    ) -> None:
        self._store, self._requests, self._grades, self._calibration = store, requests, grades, calibration
        self._run: Run | None = None
        self._is_graded = False
        self._seen = requests.revision

    def begin(self, run: Run) -> None:
        """A launch was asked for."""
        self._run, self._is_graded, self._seen = run, False, self._requests.revision

    def look(self, now_s: float, ready_since_s: float | None) -> bool:
        """Learn what can be learned now; True when something was. Trouble with the disk is logged, not raised."""
        if self._run is None or ready_since_s is None:
            return False
        try:
            graded = now_s - ready_since_s >= SETTLED_S and self._grade(self._run)
            return self._measure(self._run) or graded
        except OSError as error:
            log.warning("what this run taught cannot be kept: %s", error)
            self._run = None
            return False

    def _grade(self, run: Run) -> bool:
        predicted = run.budget.total_bytes if run.budget else None
        held = self._store.latest(q.VRAM_ENGINE_BYTES) or self._store.latest(q.ENGINE_RSS_BYTES)
        if self._is_graded or not predicted or held is None:
            return False
        self._grades.record(run.model.id, "total_bytes", predicted=predicted, measured=held)
        self._is_graded = True
        return True

    def _measure(self, run: Run) -> bool:
        new = self._requests.since(self._seen)
        self._seen = self._requests.revision
        runs = [m for m in (self._measurement(run, request) for request in new) if m is not None]
        for measurement in runs[-1:]:
            self._calibration.record(measurement)
        return bool(runs)

    def _measurement(self, run: Run, r: FinishedRequest) -> DecodeMeasurement | None:
        """A long answer, written alone and without speculation; anything else would mislead."""
        if r.error or r.drafted_tokens or not r.decode_tok_per_s or (r.generated_tokens or 0) < LEAST_TOKENS:
            return None
        depth = (r.prompt_tokens or 0) + (r.generated_tokens or 0) // 2
        moved = step_bytes(run.model, run.kv_k, run.kv_v, depth)
        if not moved or not self._was_alone(r.ended_s, (r.generated_tokens or 0) / r.decode_tok_per_s):
            return None
        return DecodeMeasurement(
            model_id=run.model.id,
            model_title=run.model.title,
            step_bytes=moved,
            decode_tok_per_s=r.decode_tok_per_s,
            depth_tokens=depth,
            on_gpu=self._store.latest(q.VRAM_ENGINE_BYTES) is not None,
            engine_version=run.build.version,
        )

    def _was_alone(self, ended_s: float, duration_s: float) -> bool:
        _, processing = self._store.window(q.REQUESTS_PROCESSING, ended_s - duration_s, ended_s)
        known = processing[np.isfinite(processing)]
        return len(known) > 0 and float(known.max()) <= 1
