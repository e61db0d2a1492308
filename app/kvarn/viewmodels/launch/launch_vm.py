"""The launch form: one draft, re-planned with every edit; Launch hands over a finished plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from PySide6.QtCore import QObject, Signal

from kvarn.domain.errors import KvarnError
from kvarn.domain.launch.check_draft import Planning, check_draft
from kvarn.domain.launch.command_line import plan_to_command
from kvarn.domain.launch.cure import Cure, find_cure
from kvarn.domain.launch.engine_build import EngineBuild
from kvarn.domain.launch.engine_status import EngineStatus
from kvarn.domain.launch.launch_plan import (
    EVERY_INTERFACE,
    LOOPBACK,
    LaunchDraft,
    LaunchPlan,
    LaunchSettings,
    PlanProblem,
    Severity,
)
from kvarn.domain.library.model_entry import ModelEntry
from kvarn.domain.settings import Settings
from kvarn.domain.shell_words import shell_text
from kvarn.services.launch.profile_store import ProfileStore
from kvarn.services.launch.supervisor import Supervisor
from kvarn.viewmodels.background import Background
from kvarn.viewmodels.bridge import Bridge
from kvarn.viewmodels.launch.budget_vm import BudgetVm
from kvarn.viewmodels.launch.engine_found import build_or_problem
from kvarn.viewmodels.launch.fields import differences
from kvarn.viewmodels.launch.port_watch import PortWatch
from kvarn.viewmodels.launch.settings_memory import SettingsMemory
from kvarn.viewmodels.library.library_vm import LibraryVm
from kvarn.viewmodels.settings_vm import SettingsVm


class LaunchVm(QObject):
    """Everything the launch panel shows, behind one signal: after `changed`, read what you need."""

    changed = Signal()
    launched = Signal()
    """A plan went to the supervisor."""

    def __init__(
        self,
        *,
        library: LibraryVm,
        settings: SettingsVm,
        supervisor: Supervisor,
        profiles: ProfileStore,
        budget: BudgetVm,
        locate: Callable[[Settings], EngineBuild],
        find_port_problem: Callable[[str, int], PlanProblem | None],
        find_free_port: Callable[[str, int], int],
        api_key: Callable[[], str | None] = lambda: None,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._library, self._settings, self._supervisor = library, settings, supervisor
        self._budget, self._read_key = budget, api_key
        self.key_problem: PlanProblem | None = None
        self._known = settings.settings
        self._find_free_port = find_free_port
        self._memory = SettingsMemory(settings, profiles)
        self._waiting: LaunchPlan | None = None
        self.v_follows_k = True
        self.build: EngineBuild | None = None
        self.engine_problem: PlanProblem | None = None
        self.status: EngineStatus = supervisor.status
        self.draft = LaunchDraft(model=None, settings=self._memory.defaults(), has_api_key=bool(self._key()))
        self.planning: Planning = check_draft(self.draft, None)
        self._locator = Background(build_or_problem(locate), name="locate-engine", parent=self)
        self._locator.answered.connect(self._on_located)
        self._ports = PortWatch(find_port_problem, self)
        self._ports.changed.connect(self.changed)
        self._bridge = Bridge(supervisor.subscribe, self)
        self._bridge.received.connect(self._on_status)
        library.changed.connect(self._on_library)
        settings.changed.connect(self._on_settings)
        self._locator.ask(settings.settings)
        self._on_library()

    # What the panel reads

    @property
    def settings(self) -> LaunchSettings:
        """The draft's settings."""
        return self.draft.settings

    @property
    def port_problem(self) -> PlanProblem | None:
        """Why the engine could not listen where the form says."""
        return self._ports.problem

    @property
    def problems(self) -> tuple[PlanProblem, ...]:
        """Everything that speaks against launching, most basic first."""
        found = tuple(p for p in self.planning.problems if p.code != "no-engine")
        # The locator says where it looked; until it has answered, a missing engine is no news.
        engine = (self.engine_problem,)
        return tuple(p for p in (*engine, self.port_problem, self.key_problem, *found) if p is not None)

    @property
    def can_launch(self) -> bool:
        """True when pressing the button starts an engine."""
        blocked = any(p.severity is Severity.BLOCKS for p in self.problems)
        return self.planning.plan is not None and self.build is not None and not blocked and self._waiting is None

    @property
    def differences(self) -> tuple[str, ...]:
        """How the running engine differs from the form; empty when it does not, or when none runs."""
        plan, model = self.status.plan, self.draft.model
        if plan is None or model is None or not self.status.is_active:
            return ()
        other_model = () if plan.model_path == model.path else (f"Model {plan.model_title} → {model.title}",)
        return other_model + differences(plan.settings, self.settings)

    @property
    def launch_word(self) -> str:
        """What the button says."""
        if self._waiting is not None:
            return "Relaunching…"
        return "Relaunch" if self.status.is_active else "Launch"

    def cure(self, problem: PlanProblem) -> Cure | None:
        """One change that removes the problem, if there is one a button can make."""
        if problem == self.port_problem:
            port = self._find_free_port(self.settings.host, self.settings.port)
            return Cure(f"Use port {port}", msgspec.structs.replace(self.settings, port=port))
        return find_cure(problem, self.draft, self.build)

    def command_text(self) -> str:
        """The engine's command line, quoted for a shell; empty while there is no plan."""
        if self.planning.plan is None or self.build is None:
            return ""
        command = plan_to_command(self.planning.plan, self.build, None)
        return shell_text([*(f"{key}={value}" for key, value in command.env.items()), *command.argv])

    # What the panel does

    def choose_model(self, model_id: str) -> None:
        """Take a model with the settings it was last edited or launched with."""
        entry = self._library.entry(model_id)
        if entry is None or (self.draft.model is not None and entry.id == self.draft.model.id):
            return
        self._use(entry)

    def edit(self, **values: Any) -> None:
        """Change some settings."""
        self.use_settings(msgspec.structs.replace(self.settings, **values))

    def use_settings(self, settings: LaunchSettings) -> None:
        """Take a whole set of settings, e.g. a profile, for the chosen model."""
        if settings.kv_k != settings.kv_v:
            self.v_follows_k = False
        self._set_draft(msgspec.structs.replace(self.draft, settings=settings))

    def choose_kv_k(self, name: str) -> None:
        """K's type; V comes along while it follows."""
        self.edit(kv_k=name, **({"kv_v": name} if self.v_follows_k else {}))

    def choose_kv_v(self, name: str) -> None:
        """V's type; the empty name lets V follow K."""
        self.v_follows_k = not name
        if name == self.settings.kv_v or (not name and self.settings.kv_k == self.settings.kv_v):
            self.changed.emit()
        self.edit(kv_v=name or self.settings.kv_k)

    def set_lan(self, open_to_lan: bool) -> None:
        """Listen on every interface, or on this computer only."""
        self.edit(host=EVERY_INTERFACE if open_to_lan else LOOPBACK)

    def launch(self) -> bool:
        """Start the plan, after the running engine has ended if there is one. False when it cannot be."""
        plan = self.planning.plan
        if not self.can_launch or plan is None:
            return False
        if self._supervisor.status.is_active:
            self._waiting = plan
            self._supervisor.stop()
            self.changed.emit()
        else:
            self._start(plan)
        return True

    def stop(self) -> None:
        """End the engine, in whatever phase it is."""
        self._waiting = None
        self._supervisor.stop()
        self.changed.emit()

    def set_visible(self, visible: bool) -> None:
        """While the form is seen, a port that cannot be had is asked for again."""
        self._ports.set_visible(visible)

    def close(self) -> None:
        """Hear no more news and end the background work; the engine is not touched."""
        self._bridge.close()
        self._locator.close()
        self._ports.close()

    # News

    def _on_library(self) -> None:
        model = self.draft.model
        if model is None:
            if (entry := self._memory.first_choice(self._library)) is not None:
                self._use(entry)
            return
        newer = self._library.entry(model.id)
        if newer is not None and newer != model:
            self._set_draft(msgspec.structs.replace(self.draft, model=newer))

    def _on_settings(self) -> None:
        old, self._known = self._known, self._settings.settings
        had_problem = self.key_problem
        self._set_draft(msgspec.structs.replace(self.draft, has_api_key=bool(self._key())))
        if self.key_problem != had_problem:
            self.changed.emit()
        if old.engine_dir != self._known.engine_dir:
            self._locator.ask(self._known)
        if old.port != self._known.port and self.settings.port == old.port:
            self.edit(port=self._known.port)
        if old.lan != self._known.lan:
            self.set_lan(self._known.lan)

    def _on_located(self, _settings: Settings, found: EngineBuild | PlanProblem) -> None:
        self.build = found if isinstance(found, EngineBuild) else None
        self.engine_problem = None if isinstance(found, EngineBuild) else found
        self._replan()

    def _on_status(self, status: EngineStatus) -> None:
        was_active, self.status = self.status.is_active, status
        if was_active and not status.is_active:
            self._budget.note_running(None)
        if not status.is_active and self._waiting is not None and not self._supervisor.status.is_active:
            plan, self._waiting = self._waiting, None
            self._start(plan)
        elif was_active and not status.is_active:
            self._check_port()
        self.changed.emit()

    # Steps

    def _use(self, entry: ModelEntry) -> None:
        settings = self._memory.recall(entry)
        self.v_follows_k = settings.kv_k == settings.kv_v
        self._set_draft(msgspec.structs.replace(self.draft, model=entry, settings=settings))

    def _set_draft(self, draft: LaunchDraft) -> None:
        if draft == self.draft:
            return
        self.draft = draft
        if draft.model is not None:
            self._memory.keep(draft.model.id, draft.settings)
        self._replan()

    def _replan(self) -> None:
        self.planning = check_draft(self.draft, self.build)
        self._budget.consider(self.draft, self.planning.plan, self.build)
        self._check_port()
        self.changed.emit()

    def _check_port(self) -> None:
        """Ask who holds the port, unless it is our own engine."""
        running = self.status.plan.settings.port if self.status.is_active and self.status.plan else None
        if self.settings.port == running:
            self._ports.forget()
        else:
            self._ports.look_at(self.settings.host, self.settings.port)

    def _key(self) -> str | None:
        """The API key; one that cannot be used blocks the launch rather than leaving the door open."""
        self.key_problem = None
        try:
            return self._read_key()
        except KvarnError as error:
            remedy = "Set another key in Settings, or correct KVARN_API_KEY and start Kvarn again."
            self.key_problem = PlanProblem(code="api-key-unusable", message=str(error), remedy=remedy, field="host")
            return None

    def _start(self, plan: LaunchPlan) -> None:
        if self.build is None or not self._supervisor.launch(plan, self.build, self._key()):
            return
        self._budget.note_running(self._budget.budget)
        model = self.draft.model
        if model is not None and model.path == plan.model_path:
            self._memory.launched(model.id, plan.settings)
        self.launched.emit()
