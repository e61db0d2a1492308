"""Copies a text and says so on itself."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QSize, QTimer
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QPushButton, QWidget

from kvarn.views.theme import theme
from kvarn.views.widgets.labels import button_text

_CONFIRM_MS = 1600


class CopyButton(QPushButton):
    """`source` is asked for the text at the moment of the click."""

    def __init__(self, label: str, source: Callable[[], str], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._label = label
        self._source = source
        self._back = QTimer(self, singleShot=True, interval=_CONFIRM_MS)
        self._back.timeout.connect(self._show_label)
        self.setIconSize(QSize(15, 15))
        self.clicked.connect(self.copy)
        theme().changed.connect(self._show_label)
        self._show_label()

    def set_label(self, label: str) -> None:
        """What the button says when it has not just copied."""
        if label != self._label:
            self._label = label
            self._show_label()

    def copy(self) -> None:
        """Put the text on the clipboard."""
        QGuiApplication.clipboard().setText(self._source())
        self.setIcon(theme().icon("done", theme().palette.good))
        if self._label:
            self.setText("Copied")
        self._back.start()

    def _show_label(self) -> None:
        self.setText(button_text(self._label))
        self.setIcon(theme().icon("copy", theme().palette.mute))
