from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from kvarn.domain.kv_type import STOCK_KV_TYPES
from kvarn.domain.launch.decode_speed import predict_decode
from kvarn.domain.launch.engine_build import EngineBuild
from kvarn.domain.launch.engine_props import props_from_json
from kvarn.domain.launch.launch_plan import LaunchPlan, LaunchSettings
from kvarn.domain.live.request import FinishedRequest
from kvarn.services.launch.calibration_store import CalibrationStore
from kvarn.services.launch.grade_store import GradeStore
from kvarn.services.launch.run_recorder import RUNS_KEPT_PER_LAUNCH, RunRecorder
from kvarn.services.library.find_model import entry_from_path

GOOD = FinishedRequest(ended_s=1.0, prompt_tokens=20, cached_tokens=0, generated_tokens=100, decode_tok_per_s=50.0)


@pytest.fixture
def recorder(starter_model: Path, request) -> RunRecorder:
    settings = LaunchSettings(**getattr(request, "param", {}))
    plan = LaunchPlan(model_path=starter_model, model_title="s", mmproj=None, alias="s", settings=settings)
    place = Path("/opt/llama-server")
    build = EngineBuild(
        server=place, bin_dir=place.parent, base="", version="1", is_kvarn=True, kv_types=STOCK_KV_TYPES
    )
    return RunRecorder(entry_from_path(starter_model), plan, build)


def test_a_prediction_is_graded_by_the_engines_own_bytes(recorder) -> None:
    recorder.loaded(props_from_json(b'{"kvarn": {"kv_bytes": 188743680}}'))
    grade = GradeStore().last(1)[0]
    assert (grade.quantity, grade.predicted, grade.error) == ("kv_bytes", 188743680, 0)


def test_an_engine_that_does_not_tell_grades_nothing(recorder) -> None:
    recorder.loaded(props_from_json(b"{}"))
    assert GradeStore().last(5) == ()


def test_a_measured_answer_makes_the_next_launch_predictable(recorder, starter_model: Path) -> None:
    recorder.finished(GOOD)
    f16 = STOCK_KV_TYPES[1]
    forecast = predict_decode(entry_from_path(starter_model), LaunchSettings(), f16, f16, 70, CalibrationStore().load())
    assert forecast is not None
    assert forecast.low < 50 < forecast.high


@pytest.mark.parametrize(
    "change",
    [
        {"generated_tokens": 5},
        {"decode_tok_per_s": None},
        {"error": "cancelled"},
        {"drafted_tokens": 8},
    ],
)
def test_an_answer_that_shows_no_plain_speed_is_not_kept(recorder, change: dict) -> None:
    recorder.finished(msgspec.structs.replace(GOOD, **change))
    assert CalibrationStore().load() is None


@pytest.mark.parametrize("recorder", [{"slots": 2}], indirect=True)
def test_answers_that_may_have_shared_the_engine_are_not_kept(recorder) -> None:
    recorder.finished(GOOD)
    assert CalibrationStore().load() is None


def test_one_launch_does_not_crowd_out_the_others(recorder) -> None:
    for _ in range(20):
        recorder.finished(GOOD)
    runs = CalibrationStore().load()
    assert runs is not None
    assert len(runs.runs) == RUNS_KEPT_PER_LAUNCH


def test_a_folder_that_cannot_be_written_costs_only_the_record(recorder, kvarn_home: Path) -> None:
    (kvarn_home / "data").parent.mkdir(parents=True, exist_ok=True)
    (kvarn_home / "data").write_text("in the way")
    recorder.loaded(props_from_json(b'{"kvarn": {"kv_bytes": 1}}'))
    recorder.finished(GOOD)
