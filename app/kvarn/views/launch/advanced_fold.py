"""The settings few people need, folded away, each with the engine's own flag beside it."""

from __future__ import annotations

import shlex

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QCheckBox, QLineEdit, QToolButton, QVBoxLayout, QWidget

from kvarn.domain.launch.check_numbers import KV_PAD_STEP, MAX_KV_PAD
from kvarn.domain.launch.checkpoint_bytes import MAX_MIB
from kvarn.domain.launch.launch_plan import LOOPBACK
from kvarn.viewmodels.launch.fields import FIELDS
from kvarn.viewmodels.launch.launch_vm import LaunchVm
from kvarn.views.launch.field_box import FieldBox, field_pair
from kvarn.views.theme import S
from kvarn.views.widgets.number_box import NumberBox

_MOST = 1 << 20
_MAY_BE_MISSING = (
    *("kv_unified", "swa_full", "adaptive_drafts", "threads", "batch_tokens", "ubatch_tokens", "kv_pad"),
    "checkpoints_mib",
)
_OWN_SWITCHES = ("kv_unified", "swa_full", "adaptive_drafts", "use_mmproj")


class AdvancedFold(QWidget):
    """Closed at first; opens by itself when one of its fields has a problem."""

    def __init__(self, vm: LaunchVm, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._vm = vm
        self._opened_for_problem = False
        self.toggle = QToolButton()
        self.toggle.setProperty("role", "quiet")
        self.toggle.setText("Advanced")
        self.toggle.setCheckable(True)
        self.toggle.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.toggle.setArrowType(Qt.ArrowType.RightArrow)
        self.threads = NumberBox(1, 4096, auto=True)
        self.batch = NumberBox(1, _MOST, 256)
        self.ubatch = NumberBox(1, _MOST, 64)
        self.kv_pad = NumberBox(KV_PAD_STEP, MAX_KV_PAD, KV_PAD_STEP, auto=True)
        self.checkpoints = NumberBox(0, MAX_MIB, 64, auto=True)
        self.port = NumberBox(1, 65535, grouped=False)
        self.extra = QLineEdit()
        self.extra.setPlaceholderText("--flag value …")
        self.alias = QLineEdit()
        self.switches = {name: _switch(name) for name in (*_OWN_SWITCHES, "lan")}
        self.boxes = {name: FieldBox(name, box) for name, box in self._numbers()}
        self.boxes |= {name: FieldBox(name, edit, show_flag=True) for name, edit in self._texts()}
        self.boxes |= {
            "host" if name == "lan" else name: FieldBox("host" if name == "lan" else name, box, show_flag=True)
            for name, box in self.switches.items()
        }
        self._arrange()
        self._connect()

    def refresh(self) -> None:
        """Show the form's values."""
        settings, build, model = self._vm.settings, self._vm.build, self._vm.draft.model
        for box, value in (
            (self.threads, settings.threads),
            (self.batch, settings.batch_tokens),
            (self.ubatch, settings.ubatch_tokens),
            (self.kv_pad, settings.kv_pad),
            (self.checkpoints, settings.checkpoints_mib),
            (self.port, settings.port),
        ):
            box.show_number(value)
        for edit, text in ((self.extra, shlex.join(settings.extra_args)), (self.alias, settings.alias)):
            if not edit.hasFocus() and edit.text() != text:
                edit.setText(text)
        for name in _OWN_SWITCHES:
            self.switches[name].setChecked(getattr(settings, name))
        self.switches["lan"].setChecked(settings.host != LOOPBACK)
        for name in _MAY_BE_MISSING:
            missing = build is not None and not build.offers(FIELDS[name].flag)
            self.boxes[name].set_reason("not in this engine build" if missing else "")
        self.boxes["use_mmproj"].set_reason("" if model and model.mmproj else "this model has no projector beside it")

    def reveal(self, has_problem: bool) -> None:
        """Unfold for a problem inside, and fold again when it is gone, unless a person unfolded it."""
        if has_problem and not self.toggle.isChecked():
            self.toggle.setChecked(True)
            self._opened_for_problem = True
        elif not has_problem and self._opened_for_problem:
            self.toggle.setChecked(False)

    def _numbers(self) -> tuple[tuple[str, NumberBox], ...]:
        batches = (("batch_tokens", self.batch), ("ubatch_tokens", self.ubatch))
        memory = (("kv_pad", self.kv_pad), ("checkpoints_mib", self.checkpoints))
        return (("threads", self.threads), *batches, *memory, ("port", self.port))

    def _texts(self) -> tuple[tuple[str, QLineEdit], ...]:
        return (("alias", self.alias), ("extra_args", self.extra))

    def _arrange(self) -> None:
        self._body = QWidget()
        body = QVBoxLayout(self._body)
        body.setContentsMargins(0, 0, 0, 0)
        body.setSpacing(S)
        pairs = (("threads", "port"), ("batch_tokens", "ubatch_tokens"), ("kv_pad", "checkpoints_mib"))
        for left, right in pairs:
            body.addLayout(field_pair(self.boxes[left], self.boxes[right]))
        for name in (*_OWN_SWITCHES, "host", "alias", "extra_args"):
            body.addWidget(self.boxes[name])
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(S)
        layout.addWidget(self.toggle, 0, Qt.AlignmentFlag.AlignLeft)
        layout.addWidget(self._body)
        self._body.hide()

    def _connect(self) -> None:
        vm = self._vm
        self.toggle.toggled.connect(self._on_toggled)
        self.threads.valueChanged.connect(lambda: vm.edit(threads=self.threads.number()))
        self.batch.valueChanged.connect(lambda n: vm.edit(batch_tokens=n))
        self.ubatch.valueChanged.connect(lambda n: vm.edit(ubatch_tokens=n))
        self.kv_pad.valueChanged.connect(lambda: vm.edit(kv_pad=self.kv_pad.number()))
        self.checkpoints.valueChanged.connect(lambda: vm.edit(checkpoints_mib=self.checkpoints.number()))
        self.port.valueChanged.connect(lambda n: vm.edit(port=n))
        self.alias.editingFinished.connect(lambda: vm.edit(alias=self.alias.text().strip()))
        self.extra.editingFinished.connect(lambda: vm.edit(extra_args=_words(self.extra.text())))
        for name in _OWN_SWITCHES:
            self.switches[name].clicked.connect(lambda on, name=name: vm.edit(**{name: on}))
        self.switches["lan"].clicked.connect(vm.set_lan)

    def _on_toggled(self, is_open: bool) -> None:
        self._opened_for_problem = False
        self._body.setVisible(is_open)
        self.toggle.setArrowType(Qt.ArrowType.DownArrow if is_open else Qt.ArrowType.RightArrow)


_SWITCH_TEXTS = {
    "kv_unified": "Slots share one pool",
    "swa_full": "For sliding-window layers too",
    "adaptive_drafts": "As long as they pay off",
    "use_mmproj": "Load the one beside the model",
    "lan": "Local network too; needs a key",
}


def _switch(name: str) -> QCheckBox:
    return QCheckBox(_SWITCH_TEXTS[name])


def _words(text: str) -> tuple[str, ...]:
    """Shell words; an unfinished quote leaves the text as plain words rather than losing it."""
    try:
        return tuple(shlex.split(text))
    except ValueError:
        return tuple(text.split())
