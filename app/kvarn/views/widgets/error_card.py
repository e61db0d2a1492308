"""A failure that stays until it is dealt with: cause, cure, the machine's words, and one button."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from kvarn.views.theme import L, M, S
from kvarn.views.widgets.copy_button import CopyButton
from kvarn.views.widgets.labels import PlainLabel, button_text


class ErrorCard(QFrame):
    """Hidden until `show_error`; `acted` is the proposed change, `dismissed` the close button."""

    acted = Signal()
    dismissed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("role", "error-card")
        self._diagnostics = ""
        self._cause = PlainLabel("", "title", wrap=True)
        self._remedy = PlainLabel("", wrap=True)
        self._words = PlainLabel("", "code", wrap=True)
        self._context = PlainLabel("", "caption", wrap=True)
        for label in (self._cause, self._remedy, self._words, self._context):
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._action = QPushButton()
        self._action.clicked.connect(self.acted)
        self._arrange()
        self.hide()

    def show_error(
        self,
        cause: str,
        remedy: str = "",
        *,
        words: str = "",
        context: str = "",
        action: str = "",
        diagnostics: str = "",
    ) -> None:
        """`words` is the first error line, `context` the engine build, model file and its size."""
        self._diagnostics = diagnostics or "\n".join(part for part in (cause, remedy, context, words) if part)
        for label, text in (
            (self._cause, cause),
            (self._remedy, remedy),
            (self._words, words),
            (self._context, context),
        ):
            label.setText(text)
            label.setVisible(bool(text))
        self._action.setText(button_text(action))
        self._action.setVisible(bool(action))
        self.setAccessibleName(cause)
        self.show()

    def clear(self) -> None:
        """Take the card away."""
        self.hide()

    def _dismiss(self) -> None:
        self.clear()
        self.dismissed.emit()

    def _arrange(self) -> None:
        layout = QVBoxLayout(self)
        layout.setContentsMargins(L, M, L, M)
        layout.setSpacing(S)
        for label in (self._cause, self._remedy, self._words, self._context):
            layout.addWidget(label)
        row = QHBoxLayout()
        row.setSpacing(S)
        row.addWidget(self._action)
        row.addWidget(CopyButton("Copy diagnostics", lambda: self._diagnostics))
        row.addStretch(1)
        close = QPushButton("Dismiss")
        close.setProperty("role", "quiet")
        close.clicked.connect(self._dismiss)
        row.addWidget(close)
        layout.addLayout(row)
