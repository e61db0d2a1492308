"""The pages as a column of icons at the left edge; exactly one is chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QButtonGroup, QFrame, QToolButton, QVBoxLayout, QWidget

from kvarn.views.theme import S, sized_font, theme

WIDTH = 76


@dataclass(frozen=True)
class Page:
    """A page of the window: its name, its icon in `resources/icons`, its widget."""

    name: str
    icon: str
    widget: QWidget


class Rail(QFrame):
    """`chosen` carries the number of the page."""

    chosen = Signal(int)

    def __init__(self, pages: Sequence[Page], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("role", "rail")
        self.setFixedWidth(WIDTH)
        self._pages = tuple(pages)
        self._group = QButtonGroup(self)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, S, 0, S)
        layout.setSpacing(2)
        for number, page in enumerate(self._pages):
            layout.addWidget(self._button(number, page))
        layout.addStretch(1)
        self._group.idClicked.connect(self.chosen)
        self._group.idToggled.connect(lambda _id, _on: self._draw_icons())
        theme().changed.connect(self._draw_icons)
        self.choose(0)

    def choose(self, number: int) -> None:
        """Mark a page as the current one, without a signal."""
        self._group.button(number).setChecked(True)
        self._draw_icons()

    def _button(self, number: int, page: Page) -> QToolButton:
        button = QToolButton()
        button.setProperty("role", "rail")
        button.setText(page.name)
        button.setToolTip(f"{page.name} (Ctrl+{number + 1})")
        button.setAccessibleName(page.name)
        button.setCheckable(True)
        button.setFont(sized_font(0.86))
        button.setIconSize(QSize(22, 22))
        button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextUnderIcon)
        button.setFixedWidth(WIDTH - 1)
        self._group.addButton(button, number)
        return button

    def _draw_icons(self) -> None:
        palette = theme().palette
        for number, page in enumerate(self._pages):
            button = self._group.button(number)
            button.setIcon(theme().icon(page.icon, palette.accent if button.isChecked() else palette.mute))
