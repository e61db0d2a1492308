"""Try it: one prompt line, the streamed answer of the running engine, and what it cost."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QPlainTextEdit, QPushButton, QToolButton, QVBoxLayout, QWidget

from kvarn.viewmodels.live.trial_vm import TrialVm
from kvarn.views.live.transcript import Transcript
from kvarn.views.theme import XS, L, S, mono_font, theme
from kvarn.views.widgets.copy_button import CopyButton
from kvarn.views.widgets.empty_state import EmptyState
from kvarn.views.widgets.labels import PlainLabel, plain_tip
from kvarn.views.widgets.prompt_box import PromptBox

_CURL_LINES = 4
_HINT = "Ask the model something  (Ctrl+N)"
_FIGURES_TIP = """TTFT: from sending to the first text, waiting and reading the prompt included.
Prefill: prompt tokens computed a second; cached ones are not counted.
Decode: tokens generated a second after the first one.
Counts and speeds are the engine's own."""


class TrialCard(QWidget):
    """`launch_wanted` comes from the empty state."""

    launch_wanted = Signal()

    def __init__(self, vm: TrialVm, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._vm = vm
        self._can_launch = False
        self.empty = EmptyState("", "")
        self.transcript = Transcript()
        self.prompt = PromptBox()
        self.send_button, self.stop_button = QPushButton("Send"), QPushButton("Stop")
        self.clear_button = QPushButton("Clear")
        self.copy_button = CopyButton("Copy answer", lambda: vm.last_answer)
        self.curl_button = QToolButton()
        self.copy_curl = CopyButton("", lambda: vm.curl)
        self.tools = QWidget(self)
        """Small controls for the card's head."""
        self.state = PlainLabel("", "mute")
        self.figures = PlainLabel("", "mute", wrap=True)
        self.problem = PlainLabel("", "bad", wrap=True)
        self.context_button = QPushButton()
        self.curl = QPlainTextEdit()
        self._arrange()
        self._connect()
        self.show_state()

    def start_writing(self) -> None:
        """Ctrl+N: put the keyboard where the next step is."""
        wanted = self.prompt if self.prompt.isVisible() and self.prompt.isEnabled() else self.empty
        wanted.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def set_can_launch(self, can_launch: bool) -> None:
        """Whether the empty state may offer to launch."""
        self._can_launch = can_launch
        self._show_empty()

    def send(self) -> None:
        """Send what is written; it stays where it is when it cannot be sent."""
        if self._vm.send(self.prompt.toPlainText()):
            self.prompt.clear()
            self.transcript.follow()

    def show_state(self) -> None:
        """Say how things stand."""
        vm = self._vm
        self.transcript.show_turns(vm.turns)
        self.prompt.setEnabled(vm.is_served)
        self.prompt.setPlaceholderText(_HINT if vm.is_served else "Launch a model to go on")
        self.send_button.setVisible(not vm.is_answering)
        self.stop_button.setVisible(vm.is_answering)
        self._show_send()
        self.state.setText(vm.state)
        self.state.setVisible(bool(vm.state))
        self._show_figures()
        self._show_problem()
        self._show_curl()
        self._show_empty()

    def _show_send(self) -> None:
        self.send_button.setEnabled(self._vm.can_send and bool(self.prompt.toPlainText().strip()))

    def _show_figures(self) -> None:
        self.figures.setText("   ·   ".join(f"{name} {value}" for name, value in self._vm.figures))
        self.figures.setVisible(bool(self._vm.figures))

    def _show_problem(self) -> None:
        problem, offer = self._vm.problem, self._vm.context_offer
        self.problem.setText(f"{problem.message} {problem.remedy}".strip() if problem else "")
        self.problem.setVisible(problem is not None)
        self.context_button.setText(f"Set the context to {offer:,}" if offer else "")
        self.context_button.setVisible(offer is not None)

    def _show_curl(self) -> None:
        has_request, is_open = bool(self._vm.curl), self.curl_button.isChecked()
        self.curl_button.setVisible(has_request)
        self.curl_button.setArrowType(Qt.ArrowType.DownArrow if is_open else Qt.ArrowType.RightArrow)
        if self.curl.toPlainText() != self._vm.curl:
            self.curl.setPlainText(self._vm.curl)
        self.curl.setVisible(has_request and is_open)
        self.copy_curl.setVisible(has_request and is_open)

    def _show_empty(self) -> None:
        vm = self._vm
        is_empty = not vm.is_served and not vm.turns
        if vm.is_loading:
            self.empty.set_content("The model is loading", "You can talk to it as soon as it is ready.")
        else:
            text = "Then write to the model here, read its answer as it comes, and watch the curves move."
            self.empty.set_content("Launch a model first", text, "Launch" if self._can_launch else "")
        self.empty.setVisible(is_empty)
        self._talk.setVisible(not is_empty)
        self.clear_button.setVisible(bool(vm.turns))
        self.copy_button.setVisible(bool(vm.last_answer))
        self._facts.setVisible(bool(vm.state or vm.figures or vm.problem))
        self.transcript.setVisible(bool(vm.turns))

    def _connect(self) -> None:
        vm = self._vm
        vm.changed.connect(self.show_state)
        vm.returned.connect(self.prompt.put_back)
        self.prompt.submitted.connect(self.send)
        self.prompt.textChanged.connect(self._show_send)
        self.send_button.clicked.connect(self.send)
        self.stop_button.clicked.connect(vm.stop)
        self.clear_button.clicked.connect(vm.clear)
        self.context_button.clicked.connect(vm.want_context)
        self.curl_button.toggled.connect(self._show_curl)
        self.empty.acted.connect(self.launch_wanted)
        theme().changed.connect(self._draw_icons)
        self._draw_icons()

    def _draw_icons(self) -> None:
        self.stop_button.setIcon(theme().icon("stop", theme().palette.bad))

    def _arrange(self) -> None:
        self._arrange_tools()
        self._talk, self._facts = QWidget(), self._facts_column()
        column = QVBoxLayout(self._talk)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(S)
        column.addWidget(self.transcript)
        column.addWidget(self._facts)
        column.addLayout(self._curl_row())
        column.addLayout(self._prompt_row())
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.empty)
        layout.addWidget(self._talk)

    def _facts_column(self) -> QWidget:
        self.figures.setToolTip(plain_tip(_FIGURES_TIP))
        facts = QWidget()
        column = QVBoxLayout(facts)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(XS)
        for label in (self.state, self.figures, self.problem):
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            column.addWidget(label)
        column.addWidget(self.context_button, 0, Qt.AlignmentFlag.AlignLeft)
        return facts

    def _curl_row(self) -> QHBoxLayout:
        self.curl.setReadOnly(True)
        self.curl.setFont(mono_font())
        self.curl.setProperty("role", "sunken")
        self.curl.setTabChangesFocus(True)
        self.curl.setAccessibleName("The last request as a command")
        self.curl.setFixedHeight(_CURL_LINES * self.curl.fontMetrics().lineSpacing() + L)
        self.copy_curl.setToolTip("Copy the command")
        self.copy_curl.setAccessibleName("Copy the command")
        row = QHBoxLayout()
        row.setSpacing(S)
        row.addWidget(self.curl, 1)
        row.addWidget(self.copy_curl, 0, Qt.AlignmentFlag.AlignTop)
        return row

    def _arrange_tools(self) -> None:
        self.curl_button.setText("As curl")
        self.curl_button.setCheckable(True)
        self.curl_button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.curl_button.setToolTip("The last request as a command for a terminal")
        row = QHBoxLayout(self.tools)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(XS)
        for button in (self.curl_button, self.copy_button):
            button.setProperty("role", "quiet")
            row.addWidget(button)

    def _prompt_row(self) -> QHBoxLayout:
        self.prompt.setAccessibleName("Prompt")
        self.send_button.setProperty("role", "primary")
        self.send_button.setToolTip("Send (Enter); Shift+Enter begins a new line")
        self.stop_button.setIconSize(QSize(14, 14))
        self.clear_button.setToolTip("Forget this conversation")
        row = QHBoxLayout()
        row.setSpacing(S)
        row.addWidget(self.prompt, 1)
        for button in (self.send_button, self.stop_button, self.clear_button):
            row.addWidget(button, 0, Qt.AlignmentFlag.AlignBottom)
        return row
