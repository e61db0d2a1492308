"""What is wrong with a field, where the field is, with the cure as a button."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtWidgets import QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from kvarn.domain.launch.launch_plan import PlanProblem, Severity
from kvarn.views.theme import XS, S
from kvarn.views.widgets.labels import PlainLabel, button_text

Cure = Callable[[], None]
ProblemWithCure = tuple[PlanProblem, str, Cure | None]
"""A problem, the label of its cure and what pressing it does."""


class ProblemNotes(QWidget):
    """Zero or more problems under each other; takes no room when there are none."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._shown: tuple[tuple[PlanProblem, str], ...] = ()
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, XS, 0, XS)
        self._layout.setSpacing(S)
        self.hide()

    def show_problems(self, problems: tuple[ProblemWithCure, ...]) -> None:
        """Where there is no cure there is no button; one cure for two problems is offered once."""
        shown = tuple((problem, label) for problem, label, _cure in problems)
        if shown == self._shown:
            return
        self._shown = shown
        while (item := self._layout.takeAt(0)) is not None:
            if (widget := item.widget()) is not None:
                widget.hide()
                widget.deleteLater()
        offered: set[str] = set()
        for problem, label, cure in problems:
            self._layout.addWidget(_note(problem, label, None if label in offered else cure))
            offered.add(label)
        self.setVisible(bool(problems))


def _note(problem: PlanProblem, label: str, cure: Cure | None) -> QWidget:
    note = QWidget()
    layout = QVBoxLayout(note)
    layout.setContentsMargins(0, 0, 0, 0)
    layout.setSpacing(XS)
    blocks = problem.severity is Severity.BLOCKS
    layout.addWidget(PlainLabel(problem.message, "bad" if blocks else "warn", wrap=True))
    if cure is None:
        if not label:
            layout.addWidget(PlainLabel(problem.remedy, "caption", wrap=True))
        return note
    row = QHBoxLayout()
    button = QPushButton(button_text(label))
    button.setAccessibleDescription(f"{problem.message} {problem.remedy}")
    button.clicked.connect(lambda: cure())
    row.addWidget(button)
    row.addStretch(1)
    layout.addLayout(row)
    return note
