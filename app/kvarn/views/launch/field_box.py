"""A labelled control: name above, flag in the tip, trouble beneath."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from kvarn.viewmodels.launch.fields import FIELDS
from kvarn.views.launch.problem_notes import ProblemNotes
from kvarn.views.theme import XS, S
from kvarn.views.widgets.labels import ElidedLabel, PlainLabel, plain_tip


class FieldBox(QWidget):
    """`field` names an entry of `FIELDS`; `trailing` is a short text at the right end of the label row.

    Its `notes` stand beneath it unless the box is one of a `field_pair`, where they need the whole width.
    """

    def __init__(self, field: str, control: QWidget, *, show_flag: bool = False, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.field = field
        self.control = control
        self.trailing = PlainLabel("", "caption")
        self.notes = ProblemNotes()
        facts = FIELDS[field]
        self.label = ElidedLabel(facts.label, "caption")
        tip = f"{facts.help}\n{facts.flag}" if facts.flag else facts.help
        for widget in (self.label, control):
            widget.setToolTip(plain_tip(tip))
        self._tip = tip
        control.setAccessibleName(facts.label)
        control.setAccessibleDescription(tip)
        if show_flag:
            self.trailing.setText(facts.flag)
        self._arrange()

    def set_reason(self, reason: str) -> None:
        """Grey the control with the reason in its tip; an empty reason enables it."""
        self.control.setEnabled(not reason)
        tip = f"{reason}\n{self._tip}" if reason else self._tip
        self.control.setToolTip(plain_tip(tip))
        self.control.setAccessibleDescription(tip)

    def _arrange(self) -> None:
        row = QHBoxLayout()
        row.setSpacing(S)
        row.addWidget(self.label, 1)
        row.addWidget(self.trailing, 0, Qt.AlignmentFlag.AlignRight)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(XS)
        layout.addLayout(row)
        layout.addWidget(self.control)
        layout.addWidget(self.notes)


def field_pair(left: FieldBox, right: FieldBox) -> QVBoxLayout:
    """Two boxes side by side, the notes of both beneath."""
    row = QHBoxLayout()
    row.setSpacing(S)
    for box in (left, right):
        row.addWidget(box, 1, Qt.AlignmentFlag.AlignTop)
    column = QVBoxLayout()
    column.setSpacing(0)
    column.addLayout(row)
    for box in (left, right):
        column.addWidget(box.notes)
    return column
