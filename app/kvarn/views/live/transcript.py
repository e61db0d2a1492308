"""A conversation as plain text that grows at its end and stays where the reader is."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QColor, QFont, QTextCharFormat, QTextCursor
from PySide6.QtWidgets import QFrame, QPlainTextEdit, QSizePolicy, QWidget

from kvarn.domain.live.chat_request import ChatTurn
from kvarn.views.theme import theme

_SPEAKERS = {"user": "You", "assistant": "Model"}
_LINES, _LEAST_LINES = 7, 3


class Transcript(QPlainTextEdit):
    """Text is shown letter for letter and only ever appended to the last block; the end is followed while in sight."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setReadOnly(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.setProperty("role", "transcript")
        self.setAccessibleName("Conversation")
        self.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.setTabChangesFocus(True)
        self._shown: tuple[ChatTurn, ...] = ()
        self._is_following, self._is_adjusting = True, False
        self.verticalScrollBar().valueChanged.connect(self._on_scrolled)
        self.verticalScrollBar().rangeChanged.connect(self._on_range)
        theme().changed.connect(self._redraw)

    def sizeHint(self) -> QSize:
        """Seven lines where there is room."""
        return self._size_of(_LINES)

    def minimumSizeHint(self) -> QSize:
        """Three lines in a low window."""
        return self._size_of(_LEAST_LINES)

    def show_turns(self, turns: Sequence[ChatTurn]) -> None:
        """Show this conversation; what already stands there is not touched."""
        turns = tuple(turns)
        if turns == self._shown:
            return
        self._is_adjusting = True
        if not _continues(turns, self._shown):
            self.clear()
            self._shown, self._is_following = (), True
        for number, turn in enumerate(turns):
            if number >= len(self._shown):
                self._begin(turn)
                self._grow(turn, ChatTurn(turn.role, ""))
            elif number == len(self._shown) - 1:
                self._grow(turn, self._shown[number])
        self._shown = turns
        if self._is_following:
            self.follow()
        self._is_adjusting = False

    def follow(self) -> None:
        """Go to the end and stay there."""
        self._is_following = True
        self.verticalScrollBar().setValue(self.verticalScrollBar().maximum())

    def _size_of(self, lines: int) -> QSize:
        height = lines * self.fontMetrics().lineSpacing() + 2 * round(self.document().documentMargin())
        return QSize(super().minimumSizeHint().width(), height)

    def _begin(self, turn: ChatTurn) -> None:
        gap = "\n\n" if self._shown or not self.document().isEmpty() else ""
        self._write(gap + _SPEAKERS.get(turn.role, turn.role) + "\n", "mute", is_title=True)

    def _grow(self, turn: ChatTurn, shown: ChatTurn) -> None:
        """Write what `turn` has beyond `shown`; thoughts come first and in grey."""
        self._write(turn.reasoning[len(shown.reasoning) :], "mute")
        if turn.text and not shown.text and turn.reasoning:
            self._write("\n\n", "ink")
        self._write(turn.text[len(shown.text) :], "ink")

    def _write(self, text: str, role: str, *, is_title: bool = False) -> None:
        ink = QTextCharFormat()
        ink.setForeground(QColor(getattr(theme().palette, role)))
        ink.setFontWeight(QFont.Weight.DemiBold if is_title else QFont.Weight.Normal)
        cursor = QTextCursor(self.document())
        cursor.movePosition(QTextCursor.MoveOperation.End)
        cursor.insertText(text, ink)

    def _redraw(self) -> None:
        turns, self._shown = self._shown, ()
        self.clear()
        self.show_turns(turns)

    def _on_scrolled(self, value: int) -> None:
        if not self._is_adjusting:
            self._is_following = value >= self.verticalScrollBar().maximum()

    def _on_range(self, _least: int, most: int) -> None:
        """The end moved, by new text or another size: stay with it while following."""
        if self._is_following:
            self.verticalScrollBar().setValue(most)


def _continues(turns: tuple[ChatTurn, ...], shown: tuple[ChatTurn, ...]) -> bool:
    """True when `turns` can be made from `shown` by appending only."""
    if not shown:
        return True
    if len(turns) < len(shown) or turns[: len(shown) - 1] != shown[:-1]:
        return False
    now, before = turns[len(shown) - 1], shown[-1]
    same = now.role == before.role and now.text.startswith(before.text) and now.reasoning.startswith(before.reasoning)
    return same and (now.reasoning == before.reasoning or not before.text)
