"""Measured runs and graded predictions survive a restart, a damaged file and two writers."""

from __future__ import annotations

import threading

import pytest

from kvarn.domain.launch.decode_speed import DecodeMeasurement
from kvarn.services import paths
from kvarn.services.launch.calibration_store import CalibrationStore
from kvarn.services.launch.free_memory import free_memory_bytes, free_ram_bytes
from kvarn.services.launch.grade_store import GradeStore


def measured(speed: float) -> DecodeMeasurement:
    return DecodeMeasurement(
        model_id="starter",
        model_title="SmolLM2",
        step_bytes=10**8,
        decode_tok_per_s=speed,
        depth_tokens=0,
        on_gpu=False,
        engine_version="1",
    )


def test_there_is_no_calibration_before_the_first_run():
    assert CalibrationStore().load() is None


def test_the_newest_hundred_runs_are_kept():
    store = CalibrationStore()
    for speed in range(103):
        store.record(measured(speed))
    assert [run.decode_tok_per_s for run in CalibrationStore().load().runs] == list(range(3, 103))


def test_a_damaged_file_is_set_aside_and_recording_goes_on():
    path = paths.data_dir() / "calibration.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(b'[{"model_id": "sta')
    store = CalibrationStore()
    assert store.load() is None
    assert path.with_suffix(".damaged").read_bytes() == b'[{"model_id": "sta'
    store.record(measured(1.0))
    assert len(store.load().runs) == 1


def test_two_threads_lose_no_grade():
    store = GradeStore()

    def record() -> None:
        for _ in range(10):
            store.record("starter", "kv_bytes", predicted=100, measured=101)

    threads = [threading.Thread(target=record) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store.last(100)) == 20


def test_grades_show_how_far_off_a_prediction_was():
    store = GradeStore()
    store.record("starter", "total_bytes", predicted=200, measured=210)
    store.record("starter", "decode_tok_per_s", predicted=0, measured=5)
    assert [grade.error for grade in store.last(5)] == [pytest.approx(0.05), None]
    assert store.last(0) == ()


def test_free_memory_counts_what_the_outgoing_model_returns():
    assert free_ram_bytes() > 0
    free = free_memory_bytes(None, None)
    assert abs(free_memory_bytes(None, 0, outgoing_bytes=1 << 40) - free - (1 << 40)) < 1 << 33
