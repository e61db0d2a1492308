"""Will it fit, and how fast will it be: the bar, its legend, the verdict and what it rests on."""

from __future__ import annotations

from PySide6.QtCore import QRect, QSize, Qt
from PySide6.QtGui import QColor, QFontMetrics, QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QVBoxLayout, QWidget

from kvarn.domain.colours import MEMORY_COLOURS
from kvarn.domain.launch.memory_budget import MemoryKind
from kvarn.viewmodels.launch.budget_text import checkpoint_text, kinds, verdict
from kvarn.viewmodels.launch.budget_vm import BudgetVm
from kvarn.views.launch.budget_bar import BudgetBar
from kvarn.views.theme import XS, S, sized_font, theme
from kvarn.views.widgets.labels import PlainLabel


class BudgetSection(QWidget):
    """Repriced with every edit of the form."""

    def __init__(self, vm: BudgetVm, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._vm = vm
        self.bar = BudgetBar()
        self.verdict = PlainLabel("", "good", wrap=True)
        self.verdict.setAlignment(Qt.AlignmentFlag.AlignRight)
        self.legend = BudgetLegend()
        self.checkpoints = PlainLabel("", "caption", wrap=True)
        self.basis = PlainLabel("", "caption", wrap=True)
        self.refusal = PlainLabel("", "warn", wrap=True)
        self.speed = PlainLabel("", "caption", wrap=True)
        self._arrange()
        vm.changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        """Show the viewmodel's budget."""
        sentence, tone = verdict(self._vm.budget)
        self.verdict.setText(sentence)
        self.verdict.set_role(tone)
        shown = kinds(self._vm.budget) if self._vm.budget else ()
        self.bar.show_budget(self._vm.budget, ". ".join((sentence, *(text for _kind, text in shown))))
        self.legend.show_kinds(shown)
        for label, text in (
            (self.checkpoints, checkpoint_text(self._vm.budget)),
            (self.basis, self._vm.basis_text),
            (self.refusal, self._vm.refusal),
            (self.speed, self._vm.speed_text),
        ):
            label.setText(text)
            label.setVisible(bool(text))

    def _arrange(self) -> None:
        head = QHBoxLayout()
        head.setSpacing(S)
        head.addWidget(PlainLabel("Memory, predicted", "caption"), 0, Qt.AlignmentFlag.AlignTop)
        head.addWidget(self.verdict, 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(XS)
        layout.addLayout(head)
        for widget in (self.bar, self.legend, self.checkpoints, self.basis, self.refusal, self.speed):
            layout.addWidget(widget)


class BudgetLegend(QWidget):
    """`■ weights 92 MiB  ■ KV 180 MiB …`, broken into lines where it must be."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._kinds: tuple[tuple[MemoryKind, str], ...] = ()
        self.setFont(sized_font(0.9))
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)

    def show_kinds(self, kinds_shown: tuple[tuple[MemoryKind, str], ...]) -> None:
        """Show these names and sizes."""
        if kinds_shown != self._kinds:
            self._kinds = kinds_shown
            self.setAccessibleName(", ".join(text for _kind, text in kinds_shown))
            self.updateGeometry()
            self.update()

    def heightForWidth(self, width: int) -> int:
        """As many lines as the entries need."""
        places = self._places(width)
        return places[-1][0].bottom() + 1 if places else 0

    def sizeHint(self) -> QSize:
        """Two lines as a start."""
        return QSize(200, self.heightForWidth(self.width() or 200))

    def paintEvent(self, _event: QPaintEvent) -> None:
        """A swatch and a text for each kind."""
        painter = QPainter(self)
        colours, metrics = theme().palette, QFontMetrics(self.font())
        side = metrics.ascent() * 3 // 4
        for place, kind, text in self._places(self.width()):
            top = place.top() + (place.height() - side) // 2
            painter.fillRect(QRect(place.left(), top, side, side), QColor(colours.line_colour(MEMORY_COLOURS[kind])))
            painter.setPen(QColor(colours.mute))
            painter.drawText(place.adjusted(side + XS, 0, 0, 0), int(Qt.AlignmentFlag.AlignVCenter), text)

    def _places(self, width: int) -> list[tuple[QRect, MemoryKind, str]]:
        metrics = QFontMetrics(self.font())
        left = top = 0
        places = []
        for kind, text in self._kinds:
            taken = metrics.ascent() * 3 // 4 + XS + metrics.horizontalAdvance(text) + 2
            if left and left + taken > width:
                left, top = 0, top + metrics.height() + 2
            places.append((QRect(left, top, taken, metrics.height()), kind, text))
            left += taken + S + XS
        return places
