"""The window: rail, header, pages, footer, shortcuts. It remembers where it stood."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from PySide6.QtCore import QEvent, QSettings, QSize, Qt
from PySide6.QtGui import QCloseEvent, QHideEvent, QKeySequence, QShortcut, QShowEvent
from PySide6.QtWidgets import QFrame, QGridLayout, QHBoxLayout, QMainWindow, QStackedWidget, QWidget

from kvarn.viewmodels.launch.engine_vm import EngineVm
from kvarn.views.header import Header
from kvarn.views.rail import Page, Rail
from kvarn.views.theme import L
from kvarn.views.widgets.labels import ElidedLabel

TITLE = "Kvarn"
_LEAST = QSize(840, 480)
"""Launch form and charts side by side without a cut; a 1080p screen at 200 % has 960 pixels."""


class MainWindow(QMainWindow):
    """`state` keeps the geometry. Closing asks nothing: the engine ends with the event loop."""

    def __init__(
        self,
        pages: Sequence[Page],
        engine: EngineVm,
        *,
        state: QSettings | None = None,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle(TITLE)
        self._engine, self._state = engine, state
        self.pages = tuple(pages)
        self.rail = Rail(pages)
        self.header = Header(engine)
        self.stack = QStackedWidget()
        self._machine, self._build = ElidedLabel("", "caption"), ElidedLabel("", "caption")
        for page in pages:
            self.stack.addWidget(page.widget)
        self._arrange()
        self.rail.chosen.connect(self.show_page)
        engine.changed.connect(self._show_title)
        self._add_shortcuts()
        self._restore()

    def show_page(self, number: int) -> None:
        """Bring a page to the front."""
        if 0 <= number < len(self.pages):
            self.stack.setCurrentIndex(number)
            self.rail.choose(number)

    def show_page_named(self, name: str) -> QWidget | None:
        """Bring the page of that name to the front and return it."""
        for number, page in enumerate(self.pages):
            if page.name == name:
                self.show_page(number)
                return page.widget
        return None

    def add_shortcut(self, keys: str, action: Callable[[], object]) -> None:
        """A key for the whole window."""
        QShortcut(QKeySequence(keys), self, lambda: action() and None)

    def set_footer(self, machine: str, build: str) -> None:
        """Facts that never change while the window is open."""
        self._machine.setText(machine)
        self._build.setText(build)

    def raise_up(self) -> None:
        """Come to the front, e.g. when Kvarn is started a second time."""
        self.setWindowState(self.windowState() & ~Qt.WindowState.WindowMinimized)
        self.show()
        self.raise_()
        self.activateWindow()

    def changeEvent(self, event: QEvent) -> None:
        """Minimised pages are told that nobody sees them."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.WindowStateChange:
            self.stack.setVisible(not self.isMinimized())
            self.header.set_ticking(not self.isMinimized())

    def showEvent(self, event: QShowEvent) -> None:
        """The uptime runs again."""
        super().showEvent(event)
        self.header.set_ticking(True)

    def hideEvent(self, event: QHideEvent) -> None:
        """The uptime stands still."""
        super().hideEvent(event)
        self.header.set_ticking(False)

    def closeEvent(self, event: QCloseEvent) -> None:
        """Remember where the window stood."""
        if self._state is not None:
            self._state.setValue("geometry", self.saveGeometry())
        event.accept()

    def _show_title(self) -> None:
        plan = self._engine.status.plan
        self.setWindowTitle(f"{self._engine.lead} – {TITLE}" if self._engine.status.is_active and plan else TITLE)

    def _add_shortcuts(self) -> None:
        for number in range(min(9, len(self.pages))):
            self.add_shortcut(f"Ctrl+{number + 1}", partial(self.show_page, number))
        self.add_shortcut("Ctrl+.", self._engine.stop)
        self.add_shortcut("Ctrl+,", lambda: self.show_page_named("Settings"))
        self.add_shortcut("Ctrl+Shift+J", lambda: self.show_page_named("Logs"))
        self.add_shortcut("Ctrl+Q", self.close)

    def _restore(self) -> None:
        self.resize(1360, 900)
        self.setMinimumSize(_LEAST)
        geometry = self._state.value("geometry") if self._state is not None else None
        if geometry is not None:
            self.restoreGeometry(geometry)

    def _arrange(self) -> None:
        root = QWidget()
        root.setProperty("role", "page")
        grid = QGridLayout(root)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setSpacing(0)
        grid.addWidget(self.rail, 0, 0, 3, 1)
        grid.addWidget(self.header, 0, 1)
        grid.addWidget(self.stack, 1, 1)
        grid.addWidget(self._footer(), 2, 1)
        grid.setRowStretch(1, 1)
        self.setCentralWidget(root)

    def _footer(self) -> QFrame:
        footer = QFrame()
        footer.setProperty("role", "footer")
        row = QHBoxLayout(footer)
        row.setContentsMargins(L, 4, L, 4)
        row.setSpacing(L)
        row.addWidget(self._machine, 3)
        self._build.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        row.addWidget(self._build, 2)
        return footer
