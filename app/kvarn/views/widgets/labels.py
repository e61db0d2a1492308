"""Labels that show text letter for letter; Qt's own guess at HTML stays off everywhere."""

from __future__ import annotations

import html

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QFontMetrics, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QLabel, QSizePolicy, QWidget

from kvarn.views.theme import sized_font

_SCALES = {"title": 1.08, "caption": 0.9, "mute": 1.0, "figure": 2.1, "figure-unit": 0.95, "headline": 1.12}
_MAX_TIP = 600
_MAX_SHOWN = 2_000
"""Characters laid out at most: a name of 20,000 letters must not slow the window down."""


def one_line(text: str) -> str:
    """Line breaks and tabs become visible signs; very long text is cut with an ellipsis."""
    shown = text.replace("\r\n", "⏎").replace("\n", "⏎").replace("\r", "⏎").replace("\t", "⇥")
    return shown if len(shown) <= _MAX_SHOWN else shown[:_MAX_SHOWN] + "…"


def plain_tip(text: str) -> str:
    """A tool tip that shows `text` as it is; Qt would take `<b>` in a plain one for markup."""
    cut = text if len(text) <= _MAX_TIP else text[:_MAX_TIP] + "…"
    return f"<div>{html.escape(cut).replace(chr(10), '<br>')}</div>" if cut.strip() else ""


def button_text(text: str) -> str:
    """Text for a button, where a single `&` would turn into an underline."""
    return text.replace("&", "&&")


class PlainLabel(QLabel):
    """A label that never renders markup. `role` picks colour and size: title, caption, mute, good, warn, bad, …"""

    def __init__(self, text: str = "", role: str = "", parent: QWidget | None = None, *, wrap: bool = False) -> None:
        super().__init__(parent)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setWordWrap(wrap)
        self.setText(text)
        self.set_role(role)

    def set_role(self, role: str) -> None:
        """Change the label's colour and size role."""
        if self.property("role") == role:
            return
        self.setProperty("role", role)
        if role in _SCALES:
            self.setFont(sized_font(_SCALES[role], bold=role in {"title", "figure", "headline"}))
        self.style().unpolish(self)
        self.style().polish(self)


class ElidedLabel(PlainLabel):
    """One line that ends in `…` when space is short; the whole text is in the tool tip."""

    def __init__(
        self,
        text: str = "",
        role: str = "",
        parent: QWidget | None = None,
        mode: Qt.TextElideMode = Qt.TextElideMode.ElideRight,
    ) -> None:
        super().__init__("", role, parent)
        self._mode = mode
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setText(text)

    def setText(self, text: str) -> None:
        """Show the first line's worth of `text`."""
        if text != self.text():
            super().setText(text)
            self._update_tip()

    def sizeHint(self) -> QSize:
        """As wide as the text, if there is room."""
        metrics = QFontMetrics(self.font())
        return QSize(metrics.horizontalAdvance(one_line(self.text())) + 2, metrics.height())

    def minimumSizeHint(self) -> QSize:
        """A few letters are enough to start with."""
        metrics = QFontMetrics(self.font())
        return QSize(min(self.sizeHint().width(), metrics.averageCharWidth() * 4), metrics.height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """A tip appears only where something is hidden."""
        super().resizeEvent(event)
        self._update_tip()

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Draw one elided line in the label's own colour."""
        painter = QPainter(self)
        shown = QFontMetrics(self.font()).elidedText(one_line(self.text()), self._mode, self.width())
        painter.setPen(self.palette().color(self.foregroundRole()))
        painter.drawText(self.rect(), int(self.alignment() | Qt.TextFlag.TextSingleLine), shown)

    def _update_tip(self) -> None:
        hidden = self.sizeHint().width() > self.width() or "\n" in self.text()
        self.setToolTip(plain_tip(self.text()) if hidden else "")
