"""What a model's header says, beside the table."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFormLayout, QFrame, QHBoxLayout, QPushButton, QScrollArea, QWidget

from kvarn.domain.library.model_entry import ModelEntry
from kvarn.domain.shell_words import shell_text
from kvarn.viewmodels.library.entry_text import fact_lines
from kvarn.views.theme import XS, M, S
from kvarn.views.widgets.card import Card
from kvarn.views.widgets.copy_button import CopyButton
from kvarn.views.widgets.labels import PlainLabel, one_line

_BREAKABLE = str.maketrans({sign: f"{sign}\u200b" for sign in "/\\-_."})
"""Paths and long names may break after these signs; the zero-width spaces are shown, never copied."""


class ModelDetails(Card):
    """`use_clicked` asks to put the model into the launch form."""

    use_clicked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent=parent)
        self._entry: ModelEntry | None = None
        self.heading = PlainLabel("", "title", wrap=True)
        self.use_button = QPushButton("Use this model")
        self.use_button.setProperty("role", "primary")
        self.use_button.clicked.connect(self.use_clicked)
        self.copy_button = CopyButton("Copy path", self._path_text)
        self._scroll = QScrollArea()
        self._scroll.setWidgetResizable(True)
        self._scroll.setFrameShape(QFrame.Shape.NoFrame)
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._scroll.setAccessibleName("Facts")
        self._scroll.viewport().setAutoFillBackground(False)
        buttons = QHBoxLayout()
        buttons.setSpacing(S)
        buttons.addWidget(self.use_button)
        buttons.addWidget(self.copy_button)
        buttons.addStretch(1)
        self.body.setSpacing(M)
        self.body.addWidget(self.heading)
        self.body.addLayout(buttons)
        self.body.addWidget(self._scroll, 1)
        self.show_entry(None)

    def _path_text(self) -> str:
        """The path as it is; spelled for a shell where no text can hold its bytes."""
        path = str(self._entry.path) if self._entry else ""
        return path if path.isascii() or not any("\udc80" <= c <= "\udcff" for c in path) else shell_text([path])

    def show_entry(self, entry: ModelEntry | None) -> None:
        """Show one model, or that none is chosen."""
        if entry is not None and entry == self._entry:
            return
        self._entry = entry
        self.heading.setText(one_line(entry.title).translate(_BREAKABLE) if entry else "No model chosen")
        self.use_button.setEnabled(entry is not None and entry.is_servable)
        self.copy_button.setEnabled(entry is not None)
        facts = _facts(entry)
        self._scroll.setWidget(facts)
        facts.setAutoFillBackground(False)


def _facts(entry: ModelEntry | None) -> QWidget:
    sheet = QWidget()
    form = QFormLayout(sheet)
    form.setContentsMargins(0, 0, S, 0)
    form.setVerticalSpacing(XS + 2)
    form.setHorizontalSpacing(M)
    form.setRowWrapPolicy(QFormLayout.RowWrapPolicy.DontWrapRows)
    form.setLabelAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop)
    for label, value in fact_lines(entry) if entry else ():
        tone = "" if label != "Status" or (entry and entry.is_servable) else "warn"
        shown = PlainLabel(one_line(value).translate(_BREAKABLE), tone, wrap=True)
        shown.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        name = PlainLabel(label, "mute")
        for text in (name, shown):
            text.setAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop)
        form.addRow(name, shown)
    return sheet
