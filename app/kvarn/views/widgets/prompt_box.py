"""A line to write into that grows with its text: Enter sends, Shift+Enter begins a new line."""

from __future__ import annotations

from PySide6.QtCore import QMimeData, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QPlainTextEdit, QSizePolicy, QWidget

_MOST_LINES = 4
_MARGIN = 3
_FRAME = 8
"""Padding and border of the style sheet, above and below together: one line is as high as a button."""


class PromptBox(QPlainTextEdit):
    """Takes a text of any length and never cuts it; beyond four lines it scrolls."""

    submitted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setTabChangesFocus(True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setProperty("role", "prompt")
        self.document().setDocumentMargin(_MARGIN)
        self.document().documentLayout().documentSizeChanged.connect(self._fit)
        self._fit()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter sends; with Shift it is a new line."""
        is_enter = event.key() in {Qt.Key.Key_Return, Qt.Key.Key_Enter}
        if is_enter and not event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            self.submitted.emit()
        else:
            super().keyPressEvent(event)

    def insertFromMimeData(self, source: QMimeData) -> None:
        """Paste letters only."""
        self.insertPlainText(source.text())

    def put_back(self, text: str) -> None:
        """Return a text to its writer, before whatever is being written now."""
        now = self.toPlainText()
        self.setPlainText(f"{text}\n{now}" if now else text)
        self.moveCursor(self.textCursor().MoveOperation.End)

    def _fit(self) -> None:
        # A plain-text document counts its height in lines.
        written = round(self.document().size().height())
        lines = max(1, min(_MOST_LINES, written))
        never, when_needed = Qt.ScrollBarPolicy.ScrollBarAlwaysOff, Qt.ScrollBarPolicy.ScrollBarAsNeeded
        self.setVerticalScrollBarPolicy(when_needed if written > lines else never)
        self.setFixedHeight(lines * self.fontMetrics().lineSpacing() + 2 * _MARGIN + _FRAME)
