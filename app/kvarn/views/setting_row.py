"""One setting: name, control, what it does, whether it was changed, and what beats it."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from kvarn.views.theme import XS, L, S
from kvarn.views.widgets.labels import PlainLabel

_NAME_WIDTH = 150
_NARROW = 150


class SettingRow(QWidget):
    """`reset_clicked` asks for the default; `needs` says when a change takes effect."""

    reset_clicked = Signal()

    def __init__(self, name: str, control: QWidget, hint: str, *, needs: str = "", narrow: bool = False) -> None:
        super().__init__()
        self._is_narrow = narrow
        if narrow:
            control.setMinimumWidth(_NARROW)
        self.control = control
        self.changed = PlainLabel("changed", "chip")
        self.reset = QPushButton("Reset")
        self.reset.setProperty("role", "quiet")
        self.reset.setAccessibleName(f"Reset {name}")
        self.reset.clicked.connect(self.reset_clicked)
        self.override = PlainLabel("", "warn", wrap=True)
        self.hint = PlainLabel(" ".join(filter(None, (hint, needs))), "caption", wrap=True)
        self.hint.setVisible(bool(self.hint.text()))
        control.setAccessibleName(name)
        control.setAccessibleDescription(self.hint.text())
        self._arrange(name)

    def add_buttons(self, *buttons: QPushButton) -> None:
        """Buttons at the right of the control."""
        for button in buttons:
            self._line.insertWidget(self._line.count() - 1, button, 0, Qt.AlignmentFlag.AlignTop)

    def show_state(self, *, is_default: bool, overridden_by: str) -> None:
        """Mark a changed value; name the environment variable that beats it."""
        self.changed.setVisible(not is_default)
        self.reset.setVisible(not is_default)
        text = f"{overridden_by} is set in the environment and is used instead." if overridden_by else ""
        self.override.setText(text)
        self.override.setVisible(bool(text))

    def _arrange(self, name: str) -> None:
        label = PlainLabel(name, wrap=True)
        label.setFixedWidth(_NAME_WIDTH)
        self._line = QHBoxLayout()
        self._line.setSpacing(S)
        self._line.addWidget(self.control, 0 if self._is_narrow else 1)
        self._line.addStretch(1 if self._is_narrow else 0)
        marks = QHBoxLayout()
        marks.setSpacing(S)
        marks.addWidget(self.hint, 1)
        marks.addWidget(self.changed, 0, Qt.AlignmentFlag.AlignVCenter)
        marks.addWidget(self.reset, 0, Qt.AlignmentFlag.AlignVCenter)
        self.body = QVBoxLayout()
        self.body.setSpacing(XS)
        self.body.addLayout(self._line)
        self.body.addLayout(marks)
        self.body.addWidget(self.override)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, S, 0, 0)
        row.setSpacing(L)
        row.addWidget(label, 0, Qt.AlignmentFlag.AlignTop)
        row.addLayout(self.body, 1)
