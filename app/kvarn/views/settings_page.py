"""Settings, grouped by the question they answer; every change is stored at once."""

from __future__ import annotations

from PySide6.QtCore import QSignalBlocker, Qt
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDoubleSpinBox,
    QFileDialog,
    QFrame,
    QHBoxLayout,
    QLineEdit,
    QListWidget,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from kvarn.domain.library.one_line import one_line
from kvarn.domain.settings import ThemeChoice
from kvarn.viewmodels.settings_vm import SettingsVm
from kvarn.views.setting_row import SettingRow
from kvarn.views.theme import XL, L, M
from kvarn.views.widgets.card import Card
from kvarn.views.widgets.copy_button import CopyButton
from kvarn.views.widgets.labels import PlainLabel
from kvarn.views.widgets.number_box import NumberBox, tidy_spin_box
from kvarn.views.widgets.quiet_wheel import quiet_wheel

_THEMES = ((ThemeChoice.SYSTEM, "As the system"), (ThemeChoice.LIGHT, "Light"), (ThemeChoice.DARK, "Dark"))
_POLLS_S = (1.0, 2.0, 5.0)
_WINDOWS_S = ((60, "60 seconds"), (300, "5 minutes"), (900, "15 minutes"))
_WIDTH = 760


class SettingsPage(QWidget):
    """One column of cards; each row says whether it differs from the default and what a change needs."""

    def __init__(self, vm: SettingsVm, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("role", "page")
        self._vm = vm
        self.theme = _combo([text for _choice, text in _THEMES])
        self.window_choice = _combo([text for _seconds, text in _WINDOWS_S])
        self.folders = QListWidget()
        self._shown_folders: tuple[str, ...] = ()
        self.folders.setProperty("role", "field")
        self.folders.setFixedHeight(self.folders.fontMetrics().height() * 5)
        self.other_tools = QCheckBox("Also look where LM Studio, Hugging Face, Ollama and llama.cpp keep theirs")
        self.engine_dir = QLineEdit()
        self.engine_dir.setPlaceholderText("Kvarn's own engine")
        self.port = NumberBox(1, 65535, grouped=False)
        self.lan = QCheckBox("Let other computers on the local network use the endpoint")
        self.key = QLineEdit()
        self.key.setEchoMode(QLineEdit.EchoMode.Password)
        self.key.setPlaceholderText("none")
        self.poll = QDoubleSpinBox()
        self.poll.setRange(_POLLS_S[0], _POLLS_S[-1])
        self.poll.setSingleStep(0.5)
        self.poll.setDecimals(1)
        self.poll.setSuffix(" s")
        tidy_spin_box(self.poll)
        self.notice = PlainLabel("", "warn", wrap=True)
        self.problem = PlainLabel("", "bad", wrap=True)
        self.rows: dict[str, SettingRow] = {}
        self._arrange()
        self._connect()
        self.refresh()

    def refresh(self) -> None:
        """Show the settings in force."""
        settings, vm = self._vm.settings, self._vm
        self.theme.setCurrentIndex([choice for choice, _text in _THEMES].index(settings.theme))
        windows = [seconds for seconds, _text in _WINDOWS_S]
        self.window_choice.setCurrentIndex(
            windows.index(settings.chart_window_s) if settings.chart_window_s in windows else -1
        )
        if self._shown_folders != settings.model_folders:
            self._shown_folders = settings.model_folders
            self.folders.clear()
            self.folders.addItems([one_line(folder) for folder in settings.model_folders])
        self.other_tools.setChecked(settings.scan_other_tools)
        _show(self.engine_dir, settings.engine_dir)
        self.lan.setChecked(settings.lan)
        with QSignalBlocker(self.port), QSignalBlocker(self.poll):
            self.port.setValue(settings.port)
            self.poll.setValue(settings.gpu_poll_s)
        _show(self.key, vm.key or "")
        self._refresh_marks()

    def _refresh_marks(self) -> None:
        vm = self._vm
        for field, row in self.rows.items():
            row.show_state(is_default=vm.is_default(field), overridden_by=vm.overridden_by(field))
        for label, text in ((self.notice, "\n".join(vm.notices)), (self.problem, vm.problem)):
            label.setText(text)
            label.setVisible(bool(text))
        self.key_hint.setText(vm.key_hint)
        self.key_hint.set_role("warn" if vm.settings.lan and not vm.key else "caption")
        self.copy_key.setEnabled(bool(vm.key))
        self.clear_key.setEnabled(bool(vm.key) and not vm.overridden_by("api_key"))
        self.new_key.setEnabled(not vm.overridden_by("api_key"))
        self.key.setReadOnly(bool(vm.overridden_by("api_key")))

    def _arrange(self) -> None:
        body = QWidget()
        body.setProperty("role", "page-body")
        # Limiting the column, not its cards, keeps wrapped texts measured at the width they are drawn at.
        sheet = QWidget()
        sheet.setMaximumWidth(_WIDTH)
        row = QHBoxLayout(body)
        row.setContentsMargins(L, M, L, XL)
        row.addWidget(sheet, 1)
        row.addStretch()
        column = QVBoxLayout(sheet)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(M)
        column.addWidget(PlainLabel("Settings", "headline"))
        column.addWidget(self.notice)
        column.addWidget(self.problem)
        for card in (self._models(), self._engine(), self._reach(), self._measuring(), self._look()):
            column.addWidget(card)
        column.addStretch(1)
        scroll = QScrollArea()
        scroll.setProperty("role", "page")
        scroll.setWidgetResizable(True)
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        scroll.setWidget(body)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(scroll)

    def _models(self) -> Card:
        self.add_folder, self.remove_folder = QPushButton("Add…"), QPushButton("Remove")
        card = Card("Where are my models?")
        folders = SettingRow(
            "Folders", self.folders, "Looked into with all their subfolders; nothing is changed there."
        )
        folders.add_buttons(self.add_folder, self.remove_folder)
        self._add(card, "model_folders", folders)
        self._add(card, "scan_other_tools", SettingRow("Other tools", self.other_tools, "Read only."))
        return card

    def _engine(self) -> Card:
        self.choose_engine = QPushButton("Choose…")
        card = Card("Which engine serves them?")
        row = SettingRow(
            "Engine folder",
            self.engine_dir,
            "A folder with a llama-server to use instead of ours. What it lacks is greyed out in the launch form.",
            needs="Takes effect with the next launch.",
        )
        row.add_buttons(self.choose_engine)
        self._add(card, "engine_dir", row)
        return card

    def _reach(self) -> Card:
        self.new_key, self.clear_key = QPushButton("New key"), QPushButton("Remove")
        self.copy_key = CopyButton("Copy", lambda: self._vm.key or "")
        self.key_hint = PlainLabel("", "caption", wrap=True)
        card = Card("Who can reach it?")
        relaunch = "A running engine keeps its own until it is relaunched."
        self._add(card, "port", SettingRow("Port", self.port, "Default port of a launch.", needs=relaunch, narrow=True))
        self._add(card, "lan", SettingRow("Network", self.lan, "Needs an API key.", needs=relaunch))
        key = SettingRow("API key", self.key, "", needs="")
        key.add_buttons(self.new_key, self.copy_key, self.clear_key)
        key.body.addWidget(self.key_hint)
        self._add(card, "api_key", key)
        return card

    def _measuring(self) -> Card:
        card = Card("How closely is it watched?")
        self._add(card, "gpu_poll_s", SettingRow("GPU readings every", self.poll, "", narrow=True))
        self._add(card, "chart_window_s", SettingRow("Charts begin with", self.window_choice, "", narrow=True))
        return card

    def _look(self) -> Card:
        card = Card("How does it look?")
        self._add(card, "theme", SettingRow("Theme", self.theme, "", narrow=True))
        return card

    def _add(self, card: Card, field: str, row: SettingRow) -> None:
        self.rows[field] = row
        row.reset_clicked.connect(lambda: self._vm.reset(field))
        card.body.addWidget(row)

    def _connect(self) -> None:
        vm = self._vm
        vm.changed.connect(self.refresh)
        vm.problem_changed.connect(self._refresh_marks)
        self.theme.activated.connect(lambda row: vm.change(theme=_THEMES[row][0]))
        self.window_choice.activated.connect(lambda row: vm.change(chart_window_s=_WINDOWS_S[row][0]))
        self.other_tools.clicked.connect(lambda on: vm.change(scan_other_tools=on))
        self.engine_dir.editingFinished.connect(lambda: vm.change(engine_dir=self.engine_dir.text().strip()))
        self.port.valueChanged.connect(lambda port: vm.change(port=port))
        self.lan.clicked.connect(lambda on: vm.change(lan=on))
        self.poll.valueChanged.connect(lambda seconds: vm.change(gpu_poll_s=seconds))
        self.key.editingFinished.connect(lambda: vm.set_key(self.key.text()))
        self.new_key.clicked.connect(vm.generate_key)
        self.clear_key.clicked.connect(lambda: vm.set_key(""))
        self.add_folder.clicked.connect(self._on_add_folder)
        self.remove_folder.clicked.connect(self._on_remove_folder)
        self.choose_engine.clicked.connect(self._on_choose_engine)

    def _on_add_folder(self) -> None:
        self._vm.add_folder(QFileDialog.getExistingDirectory(self, "Add a folder of models"))

    def _on_remove_folder(self) -> None:
        row = self.folders.currentRow()
        if 0 <= row < len(self._shown_folders):
            self._vm.remove_folder(self._shown_folders[row])

    def _on_choose_engine(self) -> None:
        folder = QFileDialog.getExistingDirectory(self, "Folder of a llama-server", self.engine_dir.text())
        if folder:
            self._vm.change(engine_dir=folder)


def _combo(texts: list[str]) -> QComboBox:
    combo = QComboBox()
    combo.addItems(texts)
    quiet_wheel(combo)
    return combo


def _show(edit: QLineEdit, text: str) -> None:
    if edit.text() != text:
        edit.setText(text)
