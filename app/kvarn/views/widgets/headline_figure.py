"""One number that can be read across the room: label, value, unit, a sub-line and a sparkline."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QWidget

from kvarn.domain.colours import NEUTRAL
from kvarn.views.theme import XS, S
from kvarn.views.widgets.card import Card
from kvarn.views.widgets.labels import ElidedLabel, PlainLabel
from kvarn.views.widgets.sparkline import Sparkline

ABSENT = "–"


class HeadlineFigure(Card):
    """`show_value(None, …)` shows a dash; the sub-line then says why."""

    def __init__(self, label: str, unit: str, colour: str = NEUTRAL, parent: QWidget | None = None) -> None:
        super().__init__(parent=parent)
        self.body.setSpacing(XS)
        self._label = ElidedLabel(label, "mute")
        self._value = PlainLabel(ABSENT, "figure")
        self._unit = PlainLabel(unit, "figure-unit")
        self._sub = ElidedLabel("", "caption")
        self.sparkline = Sparkline(colour)
        self._default_unit = unit
        self._arrange()
        self.setAccessibleName(label)

    def set_label(self, label: str) -> None:
        """Rename the figure, e.g. when the engine turns out to run on a GPU."""
        self._label.setText(label)
        self.setAccessibleName(label)

    def show_value(
        self,
        value: str | None,
        unit: str | None = None,
        sub: str = "",
        sub_role: str = "caption",
        *,
        is_dim: bool = False,
    ) -> None:
        """`value` is already formatted; None is an absence, `is_dim` marks one that is no longer now."""
        self._value.setEnabled(value is not None and not is_dim)
        self._value.setText(ABSENT if value is None else value)
        self._unit.setText(self._default_unit if unit is None else unit)
        self._sub.setText(sub)
        self._sub.set_role(sub_role)
        self.setAccessibleDescription(f"{self._value.text()} {self._unit.text()}. {sub}")

    def _arrange(self) -> None:
        row = QHBoxLayout()
        row.setSpacing(S)
        row.addWidget(self._value, 0, Qt.AlignmentFlag.AlignBaseline)
        row.addWidget(self._unit, 0, Qt.AlignmentFlag.AlignBaseline)
        row.addWidget(self.sparkline, 1, Qt.AlignmentFlag.AlignVCenter)
        self.body.addWidget(self._label)
        self.body.addLayout(row)
        self.body.addWidget(self._sub)
