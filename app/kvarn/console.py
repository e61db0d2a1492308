"""The console: builds services, viewmodels and pages and takes them down; the only file that sees them all."""

from __future__ import annotations

from PySide6.QtCore import QObject, QSettings, QTimer, Signal
from PySide6.QtWidgets import QApplication

from kvarn.domain.launch.engine_build import EngineBuild
from kvarn.domain.launch.engine_props import EngineProps
from kvarn.domain.launch.engine_status import EnginePhase, EngineStatus
from kvarn.domain.launch.launch_plan import LaunchPlan
from kvarn.domain.library.model_entry import ModelEntry
from kvarn.services import paths
from kvarn.services.clock import SystemClock
from kvarn.services.launch.calibration_store import CalibrationStore
from kvarn.services.launch.dry_run import dry_run
from kvarn.services.launch.engine_locator import locate_engine
from kvarn.services.launch.free_memory import free_memory_bytes
from kvarn.services.launch.grade_store import GradeStore
from kvarn.services.launch.port_owner import next_free_port, port_problem
from kvarn.services.launch.profile_store import ProfileStore
from kvarn.services.launch.run_recorder import RunRecorder
from kvarn.services.launch.stored_key import StoredKey
from kvarn.services.launch.supervisor import Supervisor
from kvarn.services.library.catalog import ModelCatalog
from kvarn.services.live.engine_watch import EngineWatch
from kvarn.services.live.gpu_probe import GpuProbe
from kvarn.services.live.log_store import LogStore
from kvarn.services.live.request_log import RequestLog
from kvarn.services.live.telemetry_link import TelemetryLink
from kvarn.services.live.telemetry_store import TelemetryStore
from kvarn.services.live.trial_chat import TrialChat
from kvarn.services.machine_facts import read_machine_facts
from kvarn.services.settings_store import SettingsStore
from kvarn.viewmodels.footer_text import build_text, machine_text
from kvarn.viewmodels.launch.asked_got_vm import AskedGotVm
from kvarn.viewmodels.launch.budget_vm import BudgetVm
from kvarn.viewmodels.launch.engine_vm import EngineVm
from kvarn.viewmodels.launch.launch_vm import LaunchVm
from kvarn.viewmodels.launch.profiles_vm import ProfilesVm
from kvarn.viewmodels.library.library_vm import LibraryVm
from kvarn.viewmodels.live.graph_vm import GraphVm, Window
from kvarn.viewmodels.live.live_vm import LiveVm
from kvarn.viewmodels.live.log_vm import LogVm
from kvarn.viewmodels.live.requests_vm import RequestsVm
from kvarn.viewmodels.live.trial_vm import TrialVm
from kvarn.viewmodels.settings_vm import SettingsVm
from kvarn.views.launch.launch_panel import LaunchPanel
from kvarn.views.library.library_page import LibraryPage
from kvarn.views.live.logs_page import LogsPage
from kvarn.views.live.serve_page import ServePage
from kvarn.views.main_window import MainWindow
from kvarn.views.rail import Page
from kvarn.views.settings_page import SettingsPage
from kvarn.views.theme import Theme

_CLOSE_S = 2.6
"""An engine that does not stop politely is ended by force inside the 3 s a closing window may take."""


class Services:
    """Everything without Qt. Their threads start with their first work."""

    def __init__(self) -> None:
        self.clock = SystemClock()
        self.log = LogStore(clock=self.clock)
        self.telemetry = TelemetryStore()
        self.requests = RequestLog()
        self.keys = StoredKey()
        self.gpu = GpuProbe(self.clock)
        self.supervisor = Supervisor(clock=self.clock, on_log=self.log.append)
        self.link = TelemetryLink(self.telemetry, self.requests, clock=self.clock, gpu_probe=self.gpu)
        self.grades, self.calibration = GradeStore(), CalibrationStore()
        self.recorder: RunRecorder | None = None
        self._recorded = 0
        self.watch = EngineWatch(self.supervisor, self.link, self.telemetry, clock=self.clock, api_key=self.keys.key)

    def props(self, status: EngineStatus) -> EngineProps:
        """What the running engine says of itself."""
        # Imported here because httpx takes a fifth of the time until the window is up.
        from kvarn.services.launch.props import fetch_props

        assert status.plan is not None
        props = fetch_props(status.plan.base_url, self.keys.key())
        if self.recorder is not None:
            self.recorder.loaded(props)
        return props

    def begin_record(self, model: ModelEntry, plan: LaunchPlan, build: EngineBuild) -> None:
        """A run begins: it will be graded and will calibrate later predictions; its log never shows the key."""
        self.log.hide(self.keys.key() or "")
        self.recorder = RunRecorder(model, plan, build, grades=self.grades, runs=self.calibration)
        self._recorded = self.requests.revision

    def record_requests(self) -> bool:
        """Keep the decode speeds of answers that ended since the last call; True when there were any."""
        new, self._recorded = self.requests.since(self._recorded)
        if self.recorder is not None:
            for request in new:
                self.recorder.finished(request)
        return bool(new)

    def close(self) -> None:
        """Stop the engine and every thread."""
        self.supervisor.stop()
        self.watch.close()
        self.link.close(1.0)
        self.supervisor.close(_CLOSE_S)
        self.log.close()


class Console(QObject):
    """The viewmodels and the window over one set of services."""

    raise_asked = Signal()
    """From any thread: Kvarn was started a second time."""

    def __init__(self, app: QApplication, services: Services) -> None:
        super().__init__()
        self._services = services
        self._window_s = 0
        self.settings = SettingsVm(SettingsStore(), services.keys)
        self.theme = Theme(paths.resources_dir() / "icons")
        self.theme.apply(app, self.settings.settings.theme)
        self.catalog = ModelCatalog(lambda: self.settings.settings)
        self.library = LibraryVm(self.catalog, self.settings)
        self._make_launch()
        self._make_live()
        self.window = self._make_window()
        self.theme.dress()
        self._connect()

    def show(self) -> None:
        """Open the window, then look at disks and devices."""
        self.window.show()
        QTimer.singleShot(0, self._begin)

    def close(self) -> None:
        """Take everything down, the engine included; within 3 s."""
        self.live.graph.set_visible(False)
        for part in (self.trial, self.asked_got, self.budget, self.launch, self.engine, self.logs, self.library):
            part.close()
        self.catalog.close()
        self._services.close()

    def _make_launch(self) -> None:
        s, profiles = self._services, ProfileStore()
        self.budget = BudgetVm(
            free_bytes=lambda build, layers, out: free_memory_bytes(build, layers, outgoing_bytes=out),
            dry_run=lambda plan, build, is_stale: dry_run(plan, build, cancelled=is_stale),
            calibration=s.calibration.load,
            last_grades=s.grades.last,
        )
        self.launch = LaunchVm(
            library=self.library,
            settings=self.settings,
            supervisor=s.supervisor,
            profiles=profiles,
            budget=self.budget,
            locate=locate_engine,
            find_port_problem=port_problem,
            find_free_port=next_free_port,
            api_key=s.keys.key,
        )
        self.profiles = ProfilesVm(profiles, self.launch)
        self.asked_got = AskedGotVm(self.launch, self.budget, s.props)
        self.engine = EngineVm(s.supervisor, clock=s.clock)

    def _make_live(self) -> None:
        s = self._services
        self.live = LiveVm(
            GraphVm(s.telemetry, clock=s.clock),
            RequestsVm(s.requests, clock=s.clock),
            self.engine,
            why_missing=lambda name: s.link.state.why_missing(name),
            live=lambda: s.link.live,
        )
        self.trial = TrialVm(TrialChat(clock=s.clock, api_key=s.keys.key), self.engine, api_key=s.keys.key)
        self.logs = LogVm(s.log)

    def _make_window(self) -> MainWindow:
        self.panel = LaunchPanel(
            self.launch,
            library=self.library,
            budget=self.budget,
            profiles=self.profiles,
            asked_got=self.asked_got,
        )
        self.serve_page = ServePage(self.panel, self.engine, self.live, self.trial)
        self.library_page = LibraryPage(self.library)
        pages = (
            Page("Serve", "serve", self.serve_page),
            Page("Library", "library", self.library_page),
            Page("Logs", "logs", LogsPage(self.logs)),
            Page("Settings", "settings", SettingsPage(self.settings)),
        )
        state = QSettings(str(paths.state_dir() / "window.ini"), QSettings.Format.IniFormat)
        return MainWindow(pages, self.engine, state=state)

    def _connect(self) -> None:
        self.raise_asked.connect(self.window.raise_up)
        self.settings.changed.connect(lambda: self.theme.choose(self.settings.settings.theme))
        self.settings.changed.connect(self._take_settings)
        self.library_page.model_wanted.connect(self._use_model)
        self.serve_page.log_wanted.connect(lambda: self.window.show_page_named("Logs"))
        self.launch.launched.connect(self._note_budget)
        self.engine.changed.connect(self._on_engine)
        self.live.graph.snapshot_ready.connect(self._learn)
        self.live.graph.visible_changed.connect(self._note_watching)
        self.launch.changed.connect(self._show_build)
        self.launch.changed.connect(lambda: self.serve_page.trial.set_can_launch(self.launch.can_launch))
        self.serve_page.trial.launch_wanted.connect(self.launch.launch)
        self.trial.context_wanted.connect(lambda tokens: self.launch.edit(context_tokens=tokens))
        self.engine.became_ready.connect(self.live.graph.begin_run)
        for keys, act in (
            ("Ctrl+L", self._launch_by_key),
            ("Ctrl+N", self._try_by_key),
            ("Ctrl+E", self.serve_page.charts.export_all),
        ):
            self.window.add_shortcut(keys, act)
        self._take_settings()

    def _begin(self) -> None:
        self._services.supervisor.start()
        self._services.link.start()
        self.library.rescan()
        self._show_build()

    def _launch_by_key(self) -> None:
        self.window.show_page_named("Serve")
        self.launch.launch()

    def _try_by_key(self) -> None:
        self.window.show_page_named("Serve")
        self.serve_page.start_trial()

    def _use_model(self, model_id: str) -> None:
        self.launch.choose_model(model_id)
        self.window.show_page_named("Serve")

    def _note_budget(self) -> None:
        """Keep what this launch was planned to take: the form may move on while it loads."""
        self.live.graph.budget = self.budget.budget

    def _on_engine(self) -> None:
        status, build = self.engine.status, self.launch.build
        if status.phase is not EnginePhase.STARTING or status.plan is None or build is None:
            return
        path = status.plan.model_path
        model = next((entry for entry in self.library.entries if entry.path == path), None)
        if model is not None:
            self._services.begin_record(model, status.plan, build)

    def _learn(self) -> None:
        if self._services.record_requests():
            self.budget.refresh_basis()

    def _note_watching(self, watched: bool) -> None:
        self._services.link.is_watched = watched

    def _take_settings(self) -> None:
        self._services.link.gpu_every_s = self.settings.settings.gpu_poll_s
        seconds = self.settings.settings.chart_window_s
        if seconds != self._window_s and seconds in list(Window):
            self.live.graph.set_window(Window(seconds))
        self._window_s = seconds

    def _show_build(self) -> None:
        self.engine.build = self.launch.build
        machine, cards = read_machine_facts(), self._services.link.state.gpus
        problem = self.launch.engine_problem.message if self.launch.engine_problem else ""
        names = [card.name or "GPU" for card in cards]
        text = machine_text(machine.processor, machine.cores, machine.ram_bytes, names, self._services.gpu.reason)
        self.window.set_footer(text, build_text(self.launch.build, problem))
