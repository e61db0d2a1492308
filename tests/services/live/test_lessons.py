"""A run teaches the next plan, and only what it really shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvarn.domain.kv_type import stock_kv_type
from kvarn.domain.launch.engine_build import EngineBuild
from kvarn.domain.launch.launch_plan import LaunchSettings
from kvarn.domain.launch.memory_budget import MemoryBudget, MemoryKind, MemoryPart
from kvarn.domain.live import quantities as q
from kvarn.domain.live.request import FinishedRequest
from kvarn.services.launch.calibration_store import CalibrationStore
from kvarn.services.launch.grade_store import GradeStore
from kvarn.services.library.find_model import entry_from_path
from kvarn.services.live.lessons import Lessons, Run
from kvarn.services.live.request_log import RequestLog
from kvarn.services.live.telemetry_store import TelemetryStore

F16 = stock_kv_type("f16")
ENGINE = EngineBuild(server=Path("x"), bin_dir=Path(), base="b", version="v", is_kvarn=False)
BUDGET = MemoryBudget(parts=(MemoryPart(kind=MemoryKind.WEIGHTS, label="w", bytes=100, exact=True),), free_bytes=1000)


@pytest.fixture
def store() -> TelemetryStore:
    store = TelemetryStore()
    for t in range(20):
        store.append(q.REQUESTS_PROCESSING, float(t), 1.0 if t < 10 else 2.0)
        store.append(q.ENGINE_RSS_BYTES, float(t), 110.0)
    return store


@pytest.fixture
def requests() -> RequestLog:
    return RequestLog()


@pytest.fixture
def lessons(store: TelemetryStore, requests: RequestLog, starter_model: Path) -> Lessons:
    lessons = Lessons(store, requests, GradeStore(), CalibrationStore())
    model = entry_from_path(starter_model)
    lessons.begin(Run(model=model, settings=LaunchSettings(), kv_k=F16, kv_v=F16, budget=BUDGET, build=ENGINE))
    return lessons


def answer(ended_s: float, tokens: int = 100, **more: object) -> FinishedRequest:
    return FinishedRequest(ended_s=ended_s, prompt_tokens=50, generated_tokens=tokens, decode_tok_per_s=50.0, **more)


def test_the_memory_prediction_is_graded_once_after_the_load_has_settled(lessons: Lessons) -> None:
    assert not lessons.look(1.0, None)
    assert not lessons.look(2.0, 0.0)
    assert lessons.look(4.0, 0.0)
    assert not lessons.look(5.0, 0.0)
    (grade,) = GradeStore().last(5)
    assert grade.error == pytest.approx(0.10)


def test_an_answer_written_alone_calibrates_the_speed(lessons: Lessons, requests: RequestLog) -> None:
    requests.append(answer(9.0))
    assert lessons.look(1.0, 0.0)
    (run,) = CalibrationStore().load().runs
    assert (run.decode_tok_per_s, run.depth_tokens, run.on_gpu) == (50.0, 100, False)


@pytest.mark.parametrize(
    "misleading",
    [answer(15.0), answer(9.0, 5), answer(9.0, drafted_tokens=4), answer(9.0, error="cancelled")],
    ids=["beside another", "short", "speculated", "cut off"],
)
def test_misleading_answers_teach_nothing(lessons: Lessons, requests: RequestLog, misleading: FinishedRequest) -> None:
    requests.append(misleading)
    assert not lessons.look(1.0, 0.0)
    assert CalibrationStore().load() is None
