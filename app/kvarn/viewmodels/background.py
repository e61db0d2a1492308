"""Slow questions asked from the window's thread and answered back on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QObject, Qt, Signal

from kvarn.services.latest_only import LatestOnly


class Background(QObject):
    """`LatestOnly` whose answers arrive as a queued signal on the thread that owns this object."""

    answered = Signal(object, object)
    """(question, answer) of the newest question."""
    _arrived = Signal(object, object)

    def __init__(
        self,
        answer: Callable[[Any, Callable[[], bool]], Any],
        *,
        settle_s: float = 0.0,
        name: str,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._newest: Any = None
        self._arrived.connect(self._on_arrived, Qt.ConnectionType.QueuedConnection)
        self._worker: LatestOnly[Any, Any] = LatestOnly(answer, self._arrived.emit, settle_s=settle_s, name=name)

    def ask(self, question: Any) -> None:
        """Replace whatever was asked before."""
        self._newest = question
        self._worker.ask(question)

    def forget(self) -> None:
        """Drop the question and any answer still on its way."""
        self._newest = None
        self._worker.forget()

    def close(self) -> None:
        """End the worker; nothing is answered afterwards."""
        self._newest = None
        self._worker.close()

    def _on_arrived(self, question: Any, answer: Any) -> None:
        # An answer already in Qt's queue when a newer question was asked is stale too.
        if question is self._newest:
            self.answered.emit(question, answer)
