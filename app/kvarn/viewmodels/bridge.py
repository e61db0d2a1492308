"""The one crossing: a service calls back on its own thread, Qt hears of it on the window's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QObject, Qt, Signal

Subscribe = Callable[[Callable[[Any], None]], Callable[[], None]]


class Bridge(QObject):
    """Subscribes to one service; every value it sends arrives as a queued `received`."""

    received = Signal(object)
    _sent = Signal(object)

    def __init__(self, subscribe: Subscribe, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._sent.connect(self._deliver, Qt.ConnectionType.QueuedConnection)
        self._unsubscribe: Callable[[], None] | None = subscribe(self._sent.emit)

    def close(self) -> None:
        """Hear nothing more, not even what is already on its way."""
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None

    def _deliver(self, value: object) -> None:
        if self._unsubscribe is not None:
            self.received.emit(value)
