"""Each prediction beside what was measured after the load, so that its error can be shown."""

from __future__ import annotations

from pathlib import Path

from kvarn.domain.launch.grade import Grade
from kvarn.services import paths
from kvarn.services.launch.result_list import ResultList


class GradeStore:
    """The last 200 graded predictions, in the data folder."""

    def __init__(self, path: Path | None = None) -> None:
        self._grades = ResultList(path or paths.data_dir() / "grades.json", Grade, keep=200)

    def record(self, model_id: str, quantity: str, *, predicted: float, measured: float) -> Grade:
        """Keep one pair. Raises OSError when the folder cannot be written."""
        grade = Grade(model_id=model_id, quantity=quantity, predicted=predicted, measured=measured)
        self._grades.add(grade)
        return grade

    def last(self, count: int) -> tuple[Grade, ...]:
        """The newest grades, oldest first."""
        return self._grades.load()[-count:] if count > 0 else ()
