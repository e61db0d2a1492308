"""`kvarn plan`: what a launch would take, whether it fits, how fast it should be, and what is in the way."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import typer

from kvarn.commands.launch_options import Json, Model, takes_launch_settings
from kvarn.commands.output import fail, print_json
from kvarn.domain.errors import EngineCallError, EngineNotFoundError
from kvarn.domain.kv_type import KvType, stock_kv_type
from kvarn.domain.launch.check_draft import Planning, check_draft
from kvarn.domain.launch.decode_speed import SpeedRange, predict_decode
from kvarn.domain.launch.engine_build import EngineBuild
from kvarn.domain.launch.estimate import estimate_budget
from kvarn.domain.launch.fit_context import fit_problem
from kvarn.domain.launch.kv_bytes import asked_tokens
from kvarn.domain.launch.launch_plan import LaunchDraft, LaunchSettings, PlanProblem, Severity
from kvarn.domain.launch.memory_budget import MemoryBudget, MemoryKind
from kvarn.domain.library.model_entry import ModelEntry
from kvarn.domain.quantity_text import bytes_text
from kvarn.services.launch.calibration_store import CalibrationStore
from kvarn.services.launch.dry_run import dry_run
from kvarn.services.launch.engine_locator import locate_engine
from kvarn.services.launch.free_memory import free_memory_bytes
from kvarn.services.library.catalog import scan_now
from kvarn.services.library.find_model import find_model
from kvarn.services.machine_facts import read_machine_facts
from kvarn.services.settings_store import SettingsStore

NO_SPEED = "no answer on this machine to predict from yet"
NO_SIZES = "not known without the sizes above"

Rough = Annotated[bool, typer.Option("--rough", help="Skip the engine's dry run; guess the compute buffer.")]


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """Everything `kvarn plan` says about one launch."""

    model: ModelEntry
    settings: LaunchSettings
    problems: tuple[PlanProblem, ...]
    budget: MemoryBudget
    compute_source: str
    speed_empty: SpeedRange | None
    speed_full: SpeedRange | None

    @property
    def blocking(self) -> tuple[PlanProblem, ...]:
        """The problems that prevent a launch."""
        return tuple(p for p in self.problems if p.severity is Severity.BLOCKS)


@takes_launch_settings
def plan(model: Model, settings: LaunchSettings, as_json: Json = False, rough: Rough = False) -> None:
    """Show the memory a launch needs part by part, whether it fits, the expected speed, and problems."""
    stored = SettingsStore().load().settings
    entry = find_model(model, scan_now(stored))
    try:
        build, missing = locate_engine(stored), ""
    except (EngineNotFoundError, EngineCallError) as error:
        build, missing = None, str(error)
    forecast = _forecast(entry, settings, build, missing, rough=rough)
    if as_json:
        print_json(forecast_document(forecast))
    else:
        typer.echo("\n".join(_lines(forecast)))
    if forecast.blocking:
        fail(" ".join(problem.message for problem in forecast.blocking))


def _forecast(
    entry: ModelEntry, settings: LaunchSettings, build: EngineBuild | None, missing: str, *, rough: bool
) -> Forecast:
    planning = check_draft(LaunchDraft(model=entry, settings=settings), build)
    problems = tuple(_with_reason(problem, missing) for problem in planning.problems)
    compute_bytes, trouble = _dry_run_compute(planning, None if rough else build)
    kv_k, kv_v = _type(settings.kv_k, build), _type(settings.kv_v, build)
    free_bytes = free_memory_bytes(build, settings.gpu_layers)
    calibration = CalibrationStore().load()
    if kv_k is None or kv_v is None:
        unknown = _why_no_size(settings.kv_v if kv_k else settings.kv_k, build)
        budget = MemoryBudget(parts=(), free_bytes=free_bytes, unknown=unknown)
        speeds: list[SpeedRange | None] = [None, None]
    else:
        ram_bytes = read_machine_facts().ram_bytes
        budget = estimate_budget(
            entry, settings, kv_k, kv_v, free_bytes=free_bytes, compute_bytes=compute_bytes, ram_bytes=ram_bytes
        )
        too_large = fit_problem(budget, entry, settings, kv_k, kv_v)
        trouble = (*trouble, too_large) if too_large else trouble
        depths = () if budget.unknown else (0, settings.context_tokens)
        speeds = [predict_decode(entry, settings, kv_k, kv_v, depth, calibration) for depth in depths] or [None, None]
    return Forecast(
        model=entry,
        settings=settings,
        problems=(*problems, *trouble),
        budget=budget,
        compute_source="guess" if compute_bytes is None else "dry-run",
        speed_empty=speeds[0],
        speed_full=speeds[1],
    )


def _with_reason(problem: PlanProblem, missing: str) -> PlanProblem:
    return msgspec.structs.replace(problem, message=missing) if problem.code == "no-engine" and missing else problem


def _dry_run_compute(planning: Planning, build: EngineBuild | None) -> tuple[int | None, tuple[PlanProblem, ...]]:
    if planning.plan is None or build is None:
        return None, ()
    try:
        report = dry_run(planning.plan, build)
    except EngineCallError as error:
        last = error.detail.splitlines()[-1:] if error.detail else []
        problem = PlanProblem(
            code="dry-run-failed",
            message=" ".join([str(error), *last]),
            remedy="The compute buffer is a guess; try a smaller context or another cache type.",
            severity=Severity.WARNS,
        )
        return None, (problem,)
    return (report.compute_bytes if report else None), ()


def _type(name: str, build: EngineBuild | None) -> KvType | None:
    return (build.kv_type(name) if build else None) or stock_kv_type(name)


def _why_no_size(name: str, build: EngineBuild | None) -> str:
    """Only an engine knows types that are not the stock's."""
    if build is None:
        return f"Without an engine the size of cache type “{name}” is not known."
    return f"“{name}” is no cache type of this engine."


def forecast_document(forecast: Forecast) -> dict[str, Any]:
    """The `--json` document; names are a contract."""
    budget, settings = forecast.budget, forecast.settings
    sizes = {f"{kind.value}_bytes": None if budget.unknown else budget.of(kind) for kind in MemoryKind}
    return {
        "model": {
            "id": forecast.model.id,
            "title": forecast.model.title,
            "path": str(forecast.model.path).encode(errors="replace").decode(),
        },
        "kv_k": settings.kv_k,
        "kv_v": settings.kv_v,
        "context_per_slot": settings.context_tokens,
        "context_total": asked_tokens(settings),
        "slots": settings.slots,
        "kv_unified": settings.kv_unified,
        "kv_pad": "auto" if settings.kv_pad is None else settings.kv_pad,
        **sizes,
        "checkpoints_bytes": None if budget.unknown else budget.checkpoint_bytes,
        "total_bytes": budget.total_bytes,
        "free_bytes": budget.free_bytes,
        "fits": budget.fits,
        "unknown": budget.unknown or None,
        "compute_source": None if budget.unknown else forecast.compute_source,
        "parts": [msgspec.to_builtins(part) for part in budget.parts],
        "decode_tok_per_s": _speed_document(forecast.speed_empty, _why_no_speed(budget)),
        "decode_tok_per_s_full_context": _speed_document(forecast.speed_full, _why_no_speed(budget)),
        "problems": [msgspec.to_builtins(problem) for problem in forecast.problems],
    }


def _why_no_speed(budget: MemoryBudget) -> str:
    return NO_SIZES if budget.unknown else NO_SPEED


def _speed_document(speed: SpeedRange | None, why_none: str) -> dict[str, Any]:
    if speed is None:
        return {"low": None, "high": None, "basis": why_none}
    return {"low": round(speed.low, 2), "high": round(speed.high, 2), "basis": speed.basis}


def _lines(forecast: Forecast) -> list[str]:
    s, budget = forecast.settings, forecast.budget
    slots = "" if s.slots == 1 else f" · {s.slots} slots" + (" sharing them" if s.kv_unified else " each")
    lines = [f"{forecast.model.title} · K {s.kv_k} · V {s.kv_v} · {s.context_tokens:,} tokens{slots}", ""]
    if budget.unknown:
        lines.append(f"  No estimate: {budget.unknown}")
    else:
        rows = [(part.label, part.bytes, "" if part.exact else "about ") for part in budget.parts]
        rows.append(("total", budget.total_bytes or 0, "about "))
        lines += [f"  {label:<44}{about + bytes_text(size):>18}" for label, size, about in rows]
        lines.append(f"  {'free':<44}{bytes_text(budget.free_bytes):>18}   {_verdict(budget)}")
        if budget.checkpoint_bytes:
            most = f"up to {bytes_text(budget.checkpoint_bytes)}"
            lines.append(f"  {'context checkpoints, in RAM, while serving':<44}{most:>18}")
        lines.append(f"  {'decode, empty context':<44}{_speed_text(forecast.speed_empty, NO_SPEED)}")
    if forecast.speed_full:
        lines.append(f"  {'decode, full context':<44}{_speed_text(forecast.speed_full, NO_SPEED)}")
    if forecast.problems:
        lines.append("")
    marks = {Severity.BLOCKS: "✗", Severity.WARNS: "!"}
    return lines + [f"  {marks[p.severity]} {p.message} {p.remedy}" for p in forecast.problems]


def _verdict(budget: MemoryBudget) -> str:
    if budget.total_bytes is None or budget.free_bytes is None:
        return "free memory is unknown"
    spare = budget.free_bytes - budget.total_bytes
    return f"fits, {bytes_text(spare)} to spare" if spare >= 0 else f"does not fit, {bytes_text(-spare)} too much"


def _speed_text(speed: SpeedRange | None, why_none: str) -> str:
    if speed is None:
        return f"{'–':>18}   {why_none}"
    return f"{speed.low:>8.1f} to {speed.high:.1f} tok/s   {speed.basis}"
