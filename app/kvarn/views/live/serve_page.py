"""The first screen: launch on the left; figures, charts, last requests and the trial conversation on the right."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QScrollArea, QTabBar, QVBoxLayout, QWidget

from kvarn.viewmodels.launch.engine_vm import EngineVm
from kvarn.viewmodels.live.live_vm import LiveVm
from kvarn.viewmodels.live.trial_vm import TrialVm
from kvarn.views.live.charts.charts_card import ChartsCard
from kvarn.views.live.headline_row import HeadlineRow
from kvarn.views.live.trial_card import TrialCard
from kvarn.views.theme import L, M
from kvarn.views.widgets.card import Card
from kvarn.views.widgets.error_card import ErrorCard
from kvarn.views.widgets.hairline_table import HairlineTable
from kvarn.views.widgets.labels import PlainLabel

PANEL_WIDTH = 344
_LEAST_CHARTS = 120
_TRIAL = 1
"""Number of the tab to talk in."""


class ServePage(QWidget):
    """`panel` is the launch form, which scrolls on its own."""

    log_wanted = Signal()

    def __init__(
        self, panel: QWidget, engine: EngineVm, live: LiveVm, trial: TrialVm, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._engine, self._live = engine, live
        self.error = ErrorCard()
        self.headlines = HeadlineRow()
        self.charts = ChartsCard(live.graph, live.export)
        self.requests = HairlineTable(live.requests.columns, "Last requests")
        self.requests.fit_columns()
        self._why_no_requests = PlainLabel("", "mute", wrap=True)
        self.trial = TrialCard(trial)
        self.tabs = QTabBar()
        self._arrange(panel)
        engine.changed.connect(self._show_engine)
        self.error.acted.connect(self.log_wanted)
        live.graph.snapshot_ready.connect(self._show_frame)
        live.requests.changed.connect(self._show_requests)
        self._show_engine()
        self._show_requests()

    def start_trial(self) -> None:
        """Ctrl+N: bring "Try it" to the front and begin to write."""
        self.tabs.setCurrentIndex(_TRIAL)
        self.trial.start_writing()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Space pauses the charts wherever no control wants it for itself."""
        if event.key() == Qt.Key.Key_Space and not event.modifiers():
            self.charts.toggle_pause()
        else:
            super().keyPressEvent(event)

    def _show_engine(self) -> None:
        failure = self._engine.failure
        if failure is None:
            self.error.clear()
            return
        words = failure.last_words[-1] if failure.last_words else ""
        self.error.show_error(
            failure.message,
            failure.remedy,
            words=words,
            context=self._engine.context,
            action="Show the log",
            diagnostics=self._engine.diagnostics(),
        )

    def _show_frame(self) -> None:
        self.charts.set_on_gpu(self._live.on_gpu)
        self.headlines.show_headlines(self._live.headlines())
        self.headlines.show_frame(self._live.graph.frame)
        self._why_no_requests.setText(self._live.why_no_requests())

    def _show_requests(self) -> None:
        self.requests.set_columns(self._live.requests.columns)
        self.requests.set_rows(self._live.requests.rows, self._live.requests.roles)
        empty = not self._live.requests.rows
        self._why_no_requests.setVisible(empty)
        self.requests.setVisible(not empty)

    def _arrange(self, panel: QWidget) -> None:
        panel.setFixedWidth(PANEL_WIDTH)
        right = QWidget()
        right.setProperty("role", "page-body")
        column = QVBoxLayout(right)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(M)
        column.addWidget(self.error)
        column.addWidget(self.headlines)
        column.addWidget(self.charts, 1)
        # The card stays in sight while the charts scroll: who writes to the model sees the curves move.
        beside = QVBoxLayout()
        beside.setSpacing(M)
        beside.addWidget(_scrolled(right), 1)
        beside.addWidget(self._tabbed_card())
        row = QHBoxLayout(self)
        row.setContentsMargins(L, M, L, M)
        row.setSpacing(M)
        row.addWidget(panel)
        row.addLayout(beside, 1)

    def _tabbed_card(self) -> Card:
        card, requests = Card(), QWidget()
        for title in ("Last requests", "Try it"):
            self.tabs.addTab(title)
        self.tabs.setAccessibleName("Below the charts")
        self.tabs.setDrawBase(False)
        self.tabs.setExpanding(False)
        layout = QVBoxLayout(requests)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._why_no_requests)
        layout.addWidget(self.requests)
        rows = self.requests.verticalHeader().defaultSectionSize()
        self.requests.setFixedHeight(self.requests.horizontalHeader().sizeHint().height() + 3 * rows + 2)
        head = QHBoxLayout()
        head.addWidget(self.tabs)
        head.addStretch(1)
        head.addWidget(self.trial.tools)
        card.body.addLayout(head)
        for widget in (requests, self.trial):
            card.body.addWidget(widget)
        self.trial.hide()
        self.trial.tools.hide()
        # Hidden pages take no room; those of a stack would.
        self.tabs.currentChanged.connect(lambda number: requests.setVisible(number != _TRIAL))
        for widget in (self.trial, self.trial.tools):
            self.tabs.currentChanged.connect(lambda number, shown=widget: shown.setVisible(number == _TRIAL))
        return card


def _scrolled(content: QWidget) -> QScrollArea:
    area = QScrollArea()
    area.setProperty("role", "page")
    area.setWidgetResizable(True)
    area.setFrameShape(QFrame.Shape.NoFrame)
    area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
    area.setMinimumHeight(_LEAST_CHARTS)
    body = QWidget()
    body.setProperty("role", "page-body")
    layout = QVBoxLayout(body)
    layout.setContentsMargins(0, 0, 0, 0)
    layout.addWidget(content)
    area.setWidget(body)
    return area
