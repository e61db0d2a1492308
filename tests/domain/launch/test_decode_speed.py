"""Predicted decode speed: bytes over measured bandwidth, never a number without a basis."""

from __future__ import annotations

import msgspec
import pytest

from known_models import GEMMA3_4B, LLAMA31_8B, QWEN36_27B, SMOLLM2, TYPES, dense, entry, tensors
from kvarn.domain.launch.decode_speed import Calibration, DecodeMeasurement, predict_decode, step_bytes
from kvarn.domain.launch.launch_plan import LaunchSettings

F16, Q4 = TYPES["f16"], TYPES["q4_0"]
GB = 10**9


def with_tensors(model, **sizes):
    return entry(msgspec.structs.replace(model, tensors=tensors(**sizes)))


def measured(speed: float, bytes_read: int, model_id: str = "model", *, on_gpu: bool = False) -> DecodeMeasurement:
    return DecodeMeasurement(
        model_id=model_id,
        model_title=model_id.title(),
        step_bytes=bytes_read,
        decode_tok_per_s=speed,
        depth_tokens=0,
        on_gpu=on_gpu,
        engine_version="0.3.36+kvarn.1",
    )


def test_a_tied_head_is_read_and_an_untied_embedding_is_not():
    tied = with_tensors(SMOLLM2, total=100, embedding=30)
    untied = with_tensors(SMOLLM2, total=130, embedding=30, output=30)
    assert step_bytes(tied, F16, F16, 0) == 100
    assert step_bytes(untied, F16, F16, 0) == 100


def test_only_the_experts_of_one_token_are_read():
    moe = dense("qwen3moe", 48, 32, 4, 128, expert_count=128, expert_used_count=8)
    assert step_bytes(with_tensors(moe, total=17 * GB, routed=16 * GB), F16, F16, 0) == 2 * GB


def test_a_hybrid_reads_and_writes_its_state_and_not_its_prediction_block():
    model = with_tensors(QWEN36_27B, total=16 * GB, nextn=GB)
    assert step_bytes(model, F16, F16, 0) == 15 * GB + 2 * 156_893_184
    assert step_bytes(model, Q4, Q4, 1000) - step_bytes(model, Q4, Q4, 0) == 1000 * 18432


def test_windowed_layers_are_read_no_further_than_their_window():
    model = with_tensors(GEMMA3_4B, total=GB)
    grown = step_bytes(model, F16, F16, 100_000) - step_bytes(model, F16, F16, 50_000)
    assert grown == 50_000 * 20480


@pytest.mark.parametrize("model", [entry(SMOLLM2), with_tensors(dense("qa-made-up", 2, 2, 2, 64), total=GB)])
def test_without_tensors_or_layout_there_is_nothing_to_predict_from(model):
    assert step_bytes(model, F16, F16, 0) is None
    assert predict_decode(model, LaunchSettings(), F16, F16, 0, Calibration((measured(1, GB),))) is None


def test_before_the_first_run_there_is_no_prediction():
    assert predict_decode(with_tensors(SMOLLM2, total=GB), LaunchSettings(), F16, F16, 0, None) is None


def test_runs_of_the_same_model_predict_its_speed_at_depth():
    model = with_tensors(LLAMA31_8B, total=5 * GB)
    known = Calibration((measured(10.0, 5 * GB), measured(9.0, 5 * GB), measured(99.0, GB, "other")))
    empty = predict_decode(model, LaunchSettings(), F16, F16, 0, known)
    assert empty.low == pytest.approx(9.0 / 2 ** (2 / 3))
    assert empty.high == pytest.approx(10.0 * 2 ** (2 / 3))
    assert empty.basis.startswith("the last 2 answers of this model on this CPU")
    deep = predict_decode(model, LaunchSettings(), F16, F16, 32768, known)
    slower = 5 * GB / (5 * GB + 32768 * 131072)
    assert deep.low == pytest.approx(empty.low * slower)


def test_one_slow_run_is_no_sure_word_and_each_further_run_narrows_the_range():
    model = with_tensors(LLAMA31_8B, total=5 * GB)

    def width(count: int, model_id: str = "model") -> float:
        known = Calibration((measured(10.0, 5 * GB, model_id),) * count)
        found = predict_decode(model, LaunchSettings(), F16, F16, 0, known)
        return found.high / 10.0

    assert width(1) == pytest.approx(2.0)
    assert [width(n) for n in range(1, 11)] == sorted((width(n) for n in range(1, 11)), reverse=True)
    assert width(10) == pytest.approx(1.134, abs=0.001)
    assert width(10, "other") == pytest.approx(1.5)


def test_runs_of_other_models_give_a_wider_range_that_says_so():
    model = with_tensors(SMOLLM2, total=GB)
    guess = predict_decode(model, LaunchSettings(), F16, F16, 0, Calibration((measured(10.0, 2 * GB, "other"),)))
    assert guess.low < 20.0 < guess.high
    assert guess.high / guess.low > 2
    assert guess.basis.startswith("one answer of other models, last Other")
    assert "20.0 GB/s" in guess.basis


def test_a_run_on_the_cpu_says_nothing_about_the_gpu():
    model = with_tensors(SMOLLM2, total=GB)
    known = Calibration((measured(10.0, GB),))
    assert predict_decode(model, LaunchSettings(gpu_layers=99), F16, F16, 0, known) is None
    assert predict_decode(model, LaunchSettings(gpu_layers=0), F16, F16, 0, known) is not None
    assert predict_decode(model, LaunchSettings(), F16, F16, 0, known) is not None
