"""The launch panel: choose, see whether it fits, press one button."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import Qt
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QScrollArea, QVBoxLayout, QWidget

from kvarn.domain.launch.launch_plan import FlashAttention, PlanProblem, Severity
from kvarn.viewmodels.launch.asked_got_vm import AskedGotVm
from kvarn.viewmodels.launch.budget_vm import BudgetVm
from kvarn.viewmodels.launch.choices import Choice, bits_text, kv_choices, same_as_k, speculation_choices
from kvarn.viewmodels.launch.launch_vm import LaunchVm
from kvarn.viewmodels.launch.profiles_vm import ProfilesVm
from kvarn.viewmodels.library.library_vm import LibraryVm
from kvarn.views.launch.advanced_fold import AdvancedFold
from kvarn.views.launch.asked_got_section import AskedGotSection
from kvarn.views.launch.budget_section import BudgetSection
from kvarn.views.launch.choice_combo import ChoiceCombo
from kvarn.views.launch.context_field import ContextField
from kvarn.views.launch.field_box import FieldBox, field_pair
from kvarn.views.launch.model_picker import ModelPicker
from kvarn.views.launch.problem_notes import ProblemNotes, ProblemWithCure
from kvarn.views.launch.profile_menu import ProfileMenu
from kvarn.views.theme import M, S
from kvarn.views.widgets.card import Card, Hairline
from kvarn.views.widgets.copy_button import CopyButton
from kvarn.views.widgets.labels import ElidedLabel, PlainLabel
from kvarn.views.widgets.number_box import NumberBox

_SLIDER_END_UNKNOWN = 131_072
"""Where the slider ends for a model that does not state its trained context."""
_FLASH = tuple(Choice(value=mode.value, text=mode.value) for mode in FlashAttention)
_MOST_SLOTS = 256


class LaunchPanel(Card):
    """A scrolling form over a foot that always shows the verdict and the buttons."""

    def __init__(
        self,
        vm: LaunchVm,
        *,
        library: LibraryVm,
        budget: BudgetVm,
        profiles: ProfilesVm,
        asked_got: AskedGotVm,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__("Launch", parent)
        self._vm, self._library = vm, library
        self.model, self.kv_k, self.kv_v = ModelPicker(), ChoiceCombo(), ChoiceCombo()
        self.context = ContextField()
        self.slots = NumberBox(1, _MOST_SLOTS)
        self.gpu_layers = NumberBox(0, 999, auto=True)
        self.flash, self.speculation = ChoiceCombo(), ChoiceCombo()
        controls = {
            "model": self.model,
            "kv_k": self.kv_k,
            "kv_v": self.kv_v,
            "context_tokens": self.context,
            "slots": self.slots,
            "gpu_layers": self.gpu_layers,
            "flash_attention": self.flash,
            "speculation": self.speculation,
        }
        self.boxes = {name: FieldBox(name, control) for name, control in controls.items()}
        self.advanced = AdvancedFold(vm)
        self.profiles = ProfileMenu(profiles)
        self._fields = self.boxes | self.advanced.boxes
        self.budget = BudgetSection(budget)
        self.asked_got = AskedGotSection(asked_got)
        self.notes = ProblemNotes()
        self.profile_note = PlainLabel("", "bad", wrap=True)
        self._profiles_vm = profiles
        self.relaunch_note = PlainLabel("", "warn", wrap=True)
        self.blocked_note = ElidedLabel("", "bad")
        self.launch_button = QPushButton("Launch")
        self.launch_button.setProperty("role", "primary")
        self.stop_button = QPushButton("Stop")
        self.copy_button = CopyButton("Copy command", vm.command_text)
        self._arrange()
        self._connect()
        self.refresh()

    def refresh(self) -> None:
        """Show the form as the viewmodel has it."""
        vm, settings = self._vm, self._vm.settings
        self.model.show_models(self._library.entries, vm.draft.model)
        self._refresh_kv()
        trained = vm.draft.model.facts.context_train if vm.draft.model and vm.draft.model.facts else None
        shared = settings.kv_unified and settings.slots > 1
        self.context.show_context(
            settings.context_tokens, trained or _SLIDER_END_UNKNOWN, settings.slots, shared=shared
        )
        self.slots.show_number(settings.slots)
        self.gpu_layers.show_number(settings.gpu_layers)
        self.flash.show_choices(_FLASH, settings.flash_attention.value)
        self._refresh_offers()
        self.advanced.refresh()
        self._refresh_problems()
        self._refresh_foot()

    def showEvent(self, event: QShowEvent) -> None:
        """Seen again: a problem of the port may be gone."""
        super().showEvent(event)
        self._vm.set_visible(True)

    def hideEvent(self, event: QHideEvent) -> None:
        """Not seen: nothing is asked for again."""
        super().hideEvent(event)
        self._vm.set_visible(False)

    def _refresh_kv(self) -> None:
        vm = self._vm
        k_choices = kv_choices(vm.draft, vm.build, "kv_k")
        self.kv_k.show_choices(k_choices, vm.settings.kv_k)
        v_choices = (same_as_k(vm.draft, vm.build), *kv_choices(vm.draft, vm.build, "kv_v"))
        self.kv_v.show_choices(v_choices, "" if vm.v_follows_k else vm.settings.kv_v)
        for field, name in (("kv_k", vm.settings.kv_k), ("kv_v", vm.settings.kv_v)):
            kv = vm.build.kv_type(name) if vm.build else None
            self.boxes[field].trailing.setText(bits_text(vm.draft, field, kv) if kv else "")

    def _refresh_offers(self) -> None:
        build, settings = self._vm.build, self._vm.settings
        kinds = speculation_choices(self._vm.draft, build)
        self.speculation.show_choices(kinds, settings.speculation)
        self.boxes["speculation"].set_reason("not in this engine build" if build and len(kinds) == 1 else "")
        cpu_only = build is not None and set(build.backends) <= {"CPU"}
        self.boxes["gpu_layers"].set_reason("this engine was built for the CPU only" if cpu_only else "")

    def _refresh_problems(self) -> None:
        problems = self._vm.problems
        for field, box in self._fields.items():
            box.notes.show_problems(tuple(self._with_cure(p) for p in problems if p.field == field))
        self.advanced.reveal(any(p.field in self.advanced.boxes for p in problems))
        self.notes.show_problems(tuple(self._with_cure(p) for p in problems if p.field not in self._fields))

    def _with_cure(self, problem: PlanProblem) -> ProblemWithCure:
        cure = self._vm.cure(problem)
        return (problem, cure.label, lambda: self._vm.use_settings(cure.settings)) if cure else (problem, "", None)

    def _refresh_foot(self) -> None:
        vm = self._vm
        self.launch_button.setText(vm.launch_word)
        self.launch_button.setEnabled(vm.can_launch)
        blocking = next((p for p in vm.problems if p.severity is Severity.BLOCKS and p.field in self._fields), None)
        self.blocked_note.setText(blocking.message if blocking else "")
        self.blocked_note.setVisible(blocking is not None)
        self.stop_button.setVisible(vm.status.is_active)
        self.copy_button.setEnabled(vm.planning.plan is not None and vm.build is not None)
        differences = vm.differences
        self.relaunch_note.setText(f"Relaunch needed: {' · '.join(differences)}")
        self.relaunch_note.setVisible(bool(differences))

    def _refresh_profile_note(self) -> None:
        self.profiles.refresh()
        self.profile_note.setText(self._profiles_vm.problem)
        self.profile_note.setVisible(bool(self._profiles_vm.problem))

    def _connect(self) -> None:
        vm = self._vm
        vm.changed.connect(self.refresh)
        self._library.changed.connect(lambda: self.model.show_models(self._library.entries, vm.draft.model))
        self.model.chosen.connect(vm.choose_model)
        self.kv_k.chosen.connect(vm.choose_kv_k)
        self.kv_v.chosen.connect(vm.choose_kv_v)
        self.context.changed.connect(lambda n: vm.edit(context_tokens=n))
        self.slots.valueChanged.connect(lambda n: vm.edit(slots=n))
        self.gpu_layers.valueChanged.connect(lambda: vm.edit(gpu_layers=self.gpu_layers.number()))
        self.flash.chosen.connect(lambda mode: vm.edit(flash_attention=FlashAttention(mode)))
        self.speculation.chosen.connect(lambda kind: vm.edit(speculation=kind))
        self.launch_button.clicked.connect(vm.launch)
        self.stop_button.clicked.connect(vm.stop)
        self._profiles_vm.changed.connect(self._refresh_profile_note)
        vm.changed.connect(self.profiles.refresh)
        self._refresh_profile_note()

    def _arrange(self) -> None:
        self.trailing.addWidget(self.profiles)
        form = QWidget()
        layout = QVBoxLayout(form)
        layout.setContentsMargins(0, 0, S, 0)
        layout.setSpacing(M - 2)
        layout.addWidget(self.profile_note)
        layout.addWidget(self.boxes["model"])
        layout.addLayout(field_pair(self.boxes["kv_k"], self.boxes["kv_v"]))
        layout.addWidget(self.boxes["context_tokens"])
        layout.addLayout(field_pair(self.boxes["slots"], self.boxes["gpu_layers"]))
        layout.addLayout(field_pair(self.boxes["flash_attention"], self.boxes["speculation"]))
        layout.addWidget(self.advanced)
        layout.addWidget(self.asked_got)
        layout.addStretch(1)
        scroll = QScrollArea()
        scroll.setWidget(form)
        form.setAutoFillBackground(False)
        scroll.viewport().setAutoFillBackground(False)
        scroll.setWidgetResizable(True)
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.body.addWidget(scroll, 1)
        self.body.addWidget(Hairline())
        for widget in (self.budget, self.notes, self.relaunch_note, self.blocked_note):
            self.body.addWidget(widget)
        self.body.addLayout(_row((self.launch_button, self.stop_button, self.copy_button)))


def _row(widgets: Iterable[QWidget]) -> QHBoxLayout:
    row = QHBoxLayout()
    row.setSpacing(S)
    for widget in widgets:
        row.addWidget(widget)
    row.addStretch(1)
    return row
