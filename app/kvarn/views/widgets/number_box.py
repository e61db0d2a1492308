"""A spin box that groups thousands, heeds the wheel only when focused, and reports finished numbers only."""

from __future__ import annotations

from PySide6.QtCore import QLocale, QSignalBlocker
from PySide6.QtWidgets import QAbstractSpinBox, QSpinBox, QWidget

from kvarn.views.theme import S
from kvarn.views.widgets.quiet_wheel import quiet_wheel

GROUPED = QLocale(QLocale.Language.English, QLocale.Country.UnitedStates)
"""Thousands separated by commas everywhere, whatever the system's locale is."""


class NumberBox(QSpinBox):
    """With `auto`, one step below `least` reads `auto` and means None."""

    def __init__(
        self,
        least: int,
        most: int,
        step: int = 1,
        *,
        auto: bool = False,
        grouped: bool = True,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._least = least
        self.setRange(least - 1 if auto else least, most)
        self.setSpecialValueText("auto" if auto else "")
        self.setSingleStep(step)
        self.setGroupSeparatorShown(grouped)
        tidy_spin_box(self)

    def stepBy(self, steps: int) -> None:
        """Steps lead to multiples of the step; above `auto` comes the least number, below it `auto` again."""
        step, value = self.singleStep(), self.value()
        if value < self._least:
            target = self._least + max(0, steps - 1) * step if steps > 0 else value
        else:
            below = value // step if steps > 0 else -(-value // step)
            target = (below + steps) * step
        self.setValue(self.minimum() if target < self._least else target)

    def show_number(self, value: int | None) -> None:
        """Show a value without reporting it as an edit; None is `auto`."""
        with QSignalBlocker(self):
            self.setValue(self._least - 1 if value is None else value)

    def number(self) -> int | None:
        """The value, None for `auto`."""
        return self.value() if self.value() >= self._least else None


def tidy_spin_box(box: QAbstractSpinBox) -> None:
    """What all our spin boxes share."""
    box.setLocale(GROUPED)
    box.setKeyboardTracking(False)
    box.setAccelerated(True)
    # The style sheet's padding does not reach the text inside a spin box.
    box.lineEdit().setTextMargins(S - 2, 0, 0, 0)
    quiet_wheel(box)
