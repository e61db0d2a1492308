"""Context length: a logarithmic slider, an exact number, and what it comes to over all slots."""

from __future__ import annotations

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QSlider, QVBoxLayout, QWidget

from kvarn.domain.launch.context_scale import SMALLEST_TOKENS, STEPS_PER_OCTAVE, last_position, position_of, tokens_at
from kvarn.domain.quantity_text import count_text
from kvarn.views.theme import XS, S
from kvarn.views.widgets.labels import ElidedLabel
from kvarn.views.widgets.number_box import NumberBox
from kvarn.views.widgets.quiet_wheel import quiet_wheel

MOST_TYPED = 1 << 27
"""The number may go past the slider's end; the plan then says what that means."""


class ContextField(QWidget):
    """`changed` carries tokens of one conversation."""

    changed = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._most = 0
        self.slider = QSlider(Qt.Orientation.Horizontal)
        self.number = NumberBox(1, MOST_TYPED, 1024)
        self.number.setAlignment(Qt.AlignmentFlag.AlignRight)
        self.totals = ElidedLabel("", "caption")
        self.slider.setPageStep(STEPS_PER_OCTAVE)
        self.slider.valueChanged.connect(self._on_slid)
        self.number.valueChanged.connect(self.changed)
        for control, name in ((self.slider, "Context, slider"), (self.number, "Context in tokens")):
            control.setAccessibleName(name)
        quiet_wheel(self.slider)
        self.setFocusProxy(self.slider)
        self._arrange()

    def show_context(self, tokens: int, most_tokens: int, slots: int, *, shared: bool) -> None:
        """`most_tokens` is the slider's end: what the model was trained for."""
        self._most = most_tokens
        with QSignalBlocker(self.slider):
            self.slider.setRange(0, last_position(most_tokens))
            if tokens_at(self.slider.value(), most_tokens) != tokens:
                self.slider.setValue(position_of(tokens, most_tokens))
        self.number.show_number(tokens)
        self.totals.setText(_totals(tokens, slots, shared))

    def _on_slid(self, position: int) -> None:
        self.changed.emit(max(SMALLEST_TOKENS, tokens_at(position, self._most)))

    def _arrange(self) -> None:
        row = QHBoxLayout()
        row.setSpacing(S)
        row.addWidget(self.slider, 1)
        row.addWidget(self.number)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(XS)
        layout.addLayout(row)
        layout.addWidget(self.totals)


def _totals(tokens: int, slots: int, shared: bool) -> str:
    if shared:
        return f"{count_text(tokens)} in total, shared by {slots} conversations"
    return f"{count_text(tokens)} per conversation · {count_text(tokens * slots)} in total"
