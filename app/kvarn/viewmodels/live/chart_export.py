"""Writes what the charts show to a file the user chose; trouble is a sentence, never a traceback."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from kvarn.services.atomic_file import write_atomic
from kvarn.viewmodels.live.chart_frame import ChartFrame
from kvarn.viewmodels.live.chart_sheet import Column, sheet_csv

Sheet = tuple[str, Sequence[Column]]


class ChartExport(QObject):
    """`finished` carries (went well, sentence)."""

    finished = Signal(bool, str)

    def write_bytes(self, name: str, content: bytes) -> None:
        """Replace the file by `content`."""
        try:
            write_atomic(Path(name), content)
        except OSError as error:
            self.finished.emit(False, f"{name} cannot be written: {error.strerror or error}.")
        else:
            self.finished.emit(True, f"Saved {name}")

    def write_csv(self, name: str, sheets: Sequence[Sheet], frame: ChartFrame) -> None:
        """One table for one chart; several charts share their time column."""
        columns = [column for _, sheet in sheets for column in sheet]
        self.write_bytes(name, sheet_csv(frame, columns))
