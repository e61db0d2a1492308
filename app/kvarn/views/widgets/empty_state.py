"""What stands where nothing is yet: what will appear here, and one thing to do about it."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QPushButton, QVBoxLayout, QWidget

from kvarn.views.theme import L, S
from kvarn.views.widgets.labels import PlainLabel, button_text


class EmptyState(QWidget):
    """`action` is the label of the one button; without it there is none."""

    acted = Signal()

    def __init__(self, title: str, text: str, action: str = "", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._title = PlainLabel(title, "title")
        self._text = PlainLabel(text, "mute", wrap=True)
        self._button = QPushButton()
        self._button.clicked.connect(self.acted)
        self.setFocusProxy(self._button)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(L, L, L, L)
        layout.setSpacing(S)
        layout.addStretch(1)
        for label in (self._title, self._text):
            label.setAlignment(Qt.AlignmentFlag.AlignHCenter)
            layout.addWidget(label)
        layout.addWidget(self._button, 0, Qt.AlignmentFlag.AlignHCenter)
        layout.addStretch(1)
        self.set_content(title, text, action)

    def set_content(self, title: str, text: str, action: str = "") -> None:
        """Say something else."""
        self._title.setText(title)
        self._text.setText(text)
        self._button.setText(button_text(action))
        self._button.setVisible(bool(action))
