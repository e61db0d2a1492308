"""A white sheet with a hairline around it: the ground every group of controls stands on."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QHBoxLayout, QVBoxLayout, QWidget

from kvarn.views.theme import L, M, S
from kvarn.views.widgets.labels import PlainLabel


class Card(QFrame):
    """Put content into `body` (a vertical layout), small controls beside the title into `trailing`."""

    def __init__(self, title: str = "", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("role", "card")
        self.body = QVBoxLayout(self)
        self.body.setContentsMargins(L, M, L, M)
        self.body.setSpacing(S)
        self.trailing = QHBoxLayout()
        self.trailing.setSpacing(S)
        self.title = PlainLabel(title, "title")
        if title:
            self.body.addLayout(self._title_row())

    def _title_row(self) -> QHBoxLayout:
        row = QHBoxLayout()
        row.setSpacing(S)
        row.addWidget(self.title)
        row.addStretch(1)
        row.addLayout(self.trailing)
        return row


class Hairline(QFrame):
    """A one-pixel rule between parts of a card."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("role", "hairline")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
