"""Keeps what a run taught: how right the prediction was, and how fast this machine really decodes."""

from __future__ import annotations

import logging

from kvarn.domain.launch.decode_speed import DecodeMeasurement, step_bytes
from kvarn.domain.launch.engine_build import EngineBuild
from kvarn.domain.launch.engine_props import EngineProps
from kvarn.domain.launch.estimate import estimate_budget
from kvarn.domain.launch.launch_plan import LaunchPlan
from kvarn.domain.launch.memory_budget import MemoryKind
from kvarn.domain.library.model_entry import ModelEntry
from kvarn.domain.live.request import FinishedRequest
from kvarn.services.launch.calibration_store import CalibrationStore
from kvarn.services.launch.grade_store import GradeStore

log = logging.getLogger(__name__)

LEAST_TOKENS = 32
"""Shorter answers say too little about a steady speed."""
RUNS_KEPT_PER_LAUNCH = 5


class RunRecorder:
    """One launch of one model. A full disk costs the record, never the run."""

    def __init__(
        self,
        model: ModelEntry,
        plan: LaunchPlan,
        build: EngineBuild,
        *,
        grades: GradeStore | None = None,
        runs: CalibrationStore | None = None,
    ) -> None:
        self._model, self._plan, self._build = model, plan, build
        self._kv_k, self._kv_v = build.kv_type(plan.settings.kv_k), build.kv_type(plan.settings.kv_v)
        self._grades, self._runs = grades or GradeStore(), runs or CalibrationStore()
        self._kept = 0

    def loaded(self, props: EngineProps) -> None:
        """Grade the predicted K/V bytes by the engine's own; nothing for an engine that does not tell."""
        if props.kv_bytes is None or self._kv_k is None or self._kv_v is None:
            return
        budget = estimate_budget(self._model, self._plan.settings, self._kv_k, self._kv_v, free_bytes=None)
        if budget.unknown:
            return
        try:
            self._grades.record(self._model.id, "kv_bytes", predicted=budget.of(MemoryKind.KV), measured=props.kv_bytes)
        except OSError as error:
            log.info("the prediction was not graded: %s", error)

    def finished(self, request: FinishedRequest) -> None:
        """Keep the speed of an answer that had the engine to itself: one slot, no speculation, well ended."""
        measurement = self._measurement(request)
        if measurement is None or self._kept >= RUNS_KEPT_PER_LAUNCH:
            return
        try:
            self._runs.record(measurement)
            self._kept += 1
        except OSError as error:
            log.info("the decode speed was not kept: %s", error)

    def _measurement(self, request: FinishedRequest) -> DecodeMeasurement | None:
        generated, speed = request.generated_tokens or 0, request.decode_tok_per_s
        is_alone = self._plan.settings.slots == 1 and not request.drafted_tokens
        if speed is None or generated < LEAST_TOKENS or request.error or not is_alone:
            return None
        depth = (request.prompt_tokens or 0) + generated // 2
        moved = step_bytes(self._model, self._kv_k, self._kv_v, depth) if self._kv_k and self._kv_v else None
        if not moved:
            return None
        return DecodeMeasurement(
            model_id=self._model.id,
            model_title=self._model.title,
            step_bytes=moved,
            decode_tok_per_s=speed,
            depth_tokens=depth,
            on_gpu=self._plan.settings.gpu_layers != 0 and any("CUDA" in b.upper() for b in self._build.backends),
            engine_version=self._build.version,
        )
