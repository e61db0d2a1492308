"""Decode speeds measured on this machine, which calibrate later predictions."""

from __future__ import annotations

from pathlib import Path

from kvarn.domain.launch.decode_speed import Calibration, DecodeMeasurement
from kvarn.services import paths
from kvarn.services.launch.result_list import ResultList


class CalibrationStore:
    """The last 100 measured runs, in the data folder."""

    def __init__(self, path: Path | None = None) -> None:
        self._runs = ResultList(path or paths.data_dir() / "calibration.json", DecodeMeasurement, keep=100)

    def record(self, measurement: DecodeMeasurement) -> None:
        """Keep one measured run. Raises OSError when the folder cannot be written."""
        self._runs.add(measurement)

    def load(self) -> Calibration | None:
        """What is known, None before the first run."""
        runs = self._runs.load()
        return Calibration(runs) if runs else None
