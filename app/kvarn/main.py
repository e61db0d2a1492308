"""The window's way in: one console a user, an event loop, and an orderly end by whatever ends it."""

from __future__ import annotations

import logging
import signal
import socket
import sys
from collections.abc import Callable

from PySide6.QtCore import QSocketNotifier
from PySide6.QtWidgets import QApplication

from kvarn.console import Console, Services
from kvarn.domain.errors import SettingsError
from kvarn.services.launch.single_instance import SingleInstance


def run() -> int:
    """Open the window and return the exit code of its event loop."""
    logging.basicConfig(level=logging.WARNING)
    app = QApplication(sys.argv[:1])
    app.setApplicationName("kvarn")
    app.setApplicationDisplayName("Kvarn")
    app.setDesktopFileName("kvarn")
    waiting: list[Console] = []

    def raise_window() -> None:
        for console in waiting:
            console.raise_asked.emit()

    instance = SingleInstance(raise_window)
    try:
        return _run_first(app, waiting) if instance.acquire() else 0
    except SettingsError as error:
        sys.stderr.write(f"kvarn: {error}\n")
        return 1
    finally:
        instance.close()


def _run_first(app: QApplication, waiting: list[Console]) -> int:
    console = Console(app, Services())
    waiting.append(console)
    signals = SignalQuit(app.quit)
    console.show()
    try:
        return app.exec()
    finally:
        waiting.clear()
        console.window.hide()
        console.close()
        signals.close()


class SignalQuit:
    """SIGINT and SIGTERM end the event loop: Python's own handler would wait for the next Qt event."""

    def __init__(self, leave: Callable[[], None]) -> None:
        self._ours, self._pythons = socket.socketpair()
        self._pythons.setblocking(False)
        self._notifier = QSocketNotifier(self._ours.fileno(), QSocketNotifier.Type.Read)
        self._notifier.activated.connect(lambda: self._ours.recv(64))
        self._old_fd = signal.set_wakeup_fd(self._pythons.fileno())
        self._old = {number: signal.signal(number, lambda *_: leave()) for number in (signal.SIGINT, signal.SIGTERM)}

    def close(self) -> None:
        """Back to Python's own handlers."""
        for number, handler in self._old.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._old_fd)
        self._notifier.setEnabled(False)
        self._ours.close()
        self._pythons.close()
