"""Memory and speed of the form: an estimate at once, the engine's own figures when its dry run has answered."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from PySide6.QtCore import QObject, Signal

from kvarn.domain.errors import KvarnError
from kvarn.domain.kv_type import KvType, stock_kv_type
from kvarn.domain.launch.decode_speed import Calibration, SpeedRange, predict_decode
from kvarn.domain.launch.dry_run_report import DryRun
from kvarn.domain.launch.engine_build import EngineBuild
from kvarn.domain.launch.estimate import estimate_budget
from kvarn.domain.launch.grade import Grade
from kvarn.domain.launch.launch_plan import LaunchDraft, LaunchPlan
from kvarn.domain.launch.memory_budget import MemoryBudget, MemoryKind
from kvarn.services.clock import Clock, SystemClock
from kvarn.services.machine_facts import read_machine_facts
from kvarn.viewmodels.background import Background

GRADES_SHOWN = 5
FREE_EVERY_S = 1.0
_SETTLE_S = 0.4
"""A dry run starts an engine program: wait for the slider to rest."""


DryRunner = Callable[[LaunchPlan, EngineBuild, Callable[[], bool]], DryRun | None]
"""The engine's own figures; the third argument tells that nobody waits any more. Raises EngineCallError."""


class DryRunQuestion(msgspec.Struct, frozen=True):
    """What a dry run is asked about."""

    plan: LaunchPlan
    build: EngineBuild


class BudgetVm(QObject):
    """`budget` is None until a model is chosen; `compute_bytes` comes from the newest dry run only."""

    changed = Signal()

    def __init__(
        self,
        *,
        free_bytes: Callable[[EngineBuild | None, int | None, int], int | None],
        dry_run: DryRunner,
        calibration: Callable[[], Calibration | None],
        last_grades: Callable[[int], Sequence[Grade]],
        clock: Clock | None = None,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._clock = clock or SystemClock()
        self._free_read: tuple[float, int | None, int | None] | None = None
        self._outgoing_bytes = 0
        self._free_bytes, self._calibration, self._last_grades = free_bytes, calibration, last_grades
        self.budget: MemoryBudget | None = None
        self.near_empty: SpeedRange | None = None
        self.filled: SpeedRange | None = None
        self.basis_text = ""
        self._draft: LaunchDraft | None = None
        self._build: EngineBuild | None = None
        self._question: DryRunQuestion | None = None
        self._compute: int | None = None
        self.refusal = ""
        """Why the engine refused the form in its dry run; empty when it did not."""
        self._dry_run = Background(
            _word_or_error(dry_run),
            settle_s=_SETTLE_S,
            name="dry-run",
            parent=self,
        )
        self._dry_run.answered.connect(self._on_dry_run)
        self.refresh_basis()

    def consider(self, draft: LaunchDraft, plan: LaunchPlan | None, build: EngineBuild | None) -> None:
        """Estimate now (well under 5 ms) and ask the engine for its own word, newest question first."""
        self._draft, self._build = draft, build
        if self._question is None or (self._question.plan, self._question.build) != (plan, build):
            self._question = self._compute = None
            self.refusal = ""
            self._dry_run.forget()
            if plan is not None and build is not None:
                self._question = DryRunQuestion(plan, build)
                self._dry_run.ask(self._question)
        self._estimate()

    def refresh_basis(self) -> None:
        """Read again what earlier loads and runs have taught."""
        errors = (grade.error for grade in self._last_grades(GRADES_SHOWN) if grade.quantity == "kv_bytes")
        self.basis_text = _basis_text(tuple(error for error in errors if error is not None))
        self._estimate()

    @property
    def speed_text(self) -> str:
        """Expected decode speed near-empty and filled; says why when there is none."""
        if self.budget is None or self.budget.unknown:
            return ""
        if self.near_empty is None:
            return "Expected decode: known after a first answer here"
        filled = f", {_range(self.filled)} filled" if self.filled else ""
        return f"Expected decode: {_range(self.near_empty)} tok/s near-empty{filled} · {self.near_empty.basis}"

    def note_running(self, running: MemoryBudget | None) -> None:
        """Tell what the running engine was predicted to hold: a relaunch gets it back."""
        self._outgoing_bytes = _returned_bytes(running, self._build)
        self._free_read = None

    def close(self) -> None:
        """End the background work."""
        self._dry_run.close()

    def _on_dry_run(self, _question: DryRunQuestion, answer: DryRun | KvarnError | None) -> None:
        if isinstance(answer, KvarnError):
            self.refusal = " ".join(filter(None, (str(answer), answer.detail.rpartition("\n")[2])))
        self._compute = answer.compute_bytes if isinstance(answer, DryRun) else None
        self._estimate()

    def _estimate(self) -> None:
        draft = self._draft
        if draft is None or draft.model is None:
            self.budget = self.near_empty = self.filled = None
            self.changed.emit()
            return
        settings = draft.settings
        kv_k, kv_v = self._type(settings.kv_k), self._type(settings.kv_v)
        if kv_k is None or kv_v is None:
            missing = settings.kv_k if kv_k is None else settings.kv_v
            free = self._free(settings.gpu_layers)
            self.budget = MemoryBudget(parts=(), free_bytes=free, unknown=f"{missing} is not known here")
            self.near_empty = self.filled = None
        else:
            self.budget = estimate_budget(
                draft.model,
                settings,
                kv_k,
                kv_v,
                free_bytes=self._free(settings.gpu_layers),
                compute_bytes=self._compute,
                ram_bytes=read_machine_facts().ram_bytes,
            )
            known = self._calibration()
            self.near_empty, self.filled = (
                predict_decode(draft.model, settings, kv_k, kv_v, depth, known)
                for depth in (0, settings.context_tokens)
            )
        self.changed.emit()

    def _free(self, gpu_layers: int | None) -> int | None:
        """Read at most once a second: asking a GPU's driver takes longer than an edit may."""
        now_s = self._clock.now()
        read = self._free_read
        if read is None or now_s - read[0] > FREE_EVERY_S or read[1] != gpu_layers:
            free = self._free_bytes(self._build, gpu_layers, self._outgoing_bytes)
            read = self._free_read = (now_s, gpu_layers, free)
        return read[2]

    def _type(self, name: str) -> KvType | None:
        return self._build.kv_type(name) if self._build else stock_kv_type(name)


def _word_or_error(dry_run: DryRunner) -> Callable[..., DryRun | KvarnError | None]:
    def answer(question: DryRunQuestion, is_stale: Callable[[], bool]) -> DryRun | KvarnError | None:
        try:
            return dry_run(question.plan, question.build, is_stale)
        except KvarnError as error:
            return error

    return answer


def _returned_bytes(running: MemoryBudget | None, build: EngineBuild | None) -> int:
    """On a CPU mapped weights count as free already: they are page cache."""
    total = running.total_bytes if running else None
    if running is None or total is None:
        return 0
    on_gpu = build is not None and any("CUDA" in name.upper() for name in build.backends)
    return total if on_gpu else total - running.of(MemoryKind.WEIGHTS)


def _range(speed: SpeedRange | None) -> str:
    return f"{speed.low:.0f}–{speed.high:.0f}" if speed else ""


_COUNTS = {2: "two", 3: "three", 4: "four", 5: "five"}


def _basis_text(errors: tuple[float, ...]) -> str:
    """`errors` are relative: 0.018 is 1.8 %."""
    if not errors:
        return ""
    worst = max(abs(error) for error in errors) * 100
    loads = f"last {_COUNTS[len(errors)]} loads" if len(errors) in _COUNTS else "last load"
    return f"KV cache of the {loads} predicted within {worst:.1f} %"
