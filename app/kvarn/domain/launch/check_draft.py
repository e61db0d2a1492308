"""From a draft being edited to a plan that may be launched, or the problems in the way."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kvarn.domain.launch.check_access import check_access
from kvarn.domain.launch.check_arguments import check_arguments, check_speculation
from kvarn.domain.launch.check_kv import check_kv
from kvarn.domain.launch.check_numbers import check_numbers
from kvarn.domain.launch.checkpoint_bytes import check_checkpoints
from kvarn.domain.launch.engine_build import EngineBuild
from kvarn.domain.launch.launch_plan import LaunchDraft, LaunchPlan, PlanProblem, Severity
from kvarn.domain.library.model_entry import ModelEntry


class Planning(msgspec.Struct, frozen=True):
    """The outcome of a check. `plan` is None exactly when a problem blocks."""

    plan: LaunchPlan | None
    problems: tuple[PlanProblem, ...]

    @property
    def blocking(self) -> tuple[PlanProblem, ...]:
        """The problems that prevent a launch."""
        return tuple(p for p in self.problems if p.severity is Severity.BLOCKS)


def check_draft(draft: LaunchDraft, build: EngineBuild | None) -> Planning:
    """Check a draft against the model's header and what the engine offers. Pure, well under 5 ms."""
    problems = tuple(_problems(draft, build))
    blocked = any(p.severity is Severity.BLOCKS for p in problems)
    model = draft.model
    if blocked or model is None:
        return Planning(None, problems)
    settings = draft.settings
    plan = LaunchPlan(
        model_path=model.path,
        model_title=model.title,
        mmproj=model.mmproj if settings.use_mmproj else None,
        alias=settings.alias or model.title,
        settings=settings,
    )
    return Planning(plan, problems)


def _problems(draft: LaunchDraft, build: EngineBuild | None) -> Iterator[PlanProblem]:
    if build is None:
        yield PlanProblem(
            code="no-engine",
            message="No engine was found to run the model with.",
            remedy="Run `make run` once to build it, or name a folder with llama-server in the settings.",
        )
    yield from check_access(draft.settings, has_api_key=draft.has_api_key)
    yield from _model(draft.model)
    facts = draft.model.facts if draft.model else None
    if build is None or facts is None:
        return
    yield from check_numbers(facts, draft.settings, build)
    yield from check_checkpoints(facts, draft.settings)
    yield from check_kv(facts, draft.settings, build)
    yield from check_speculation(facts, draft.settings, build)
    yield from check_arguments(draft.settings, build)


def _model(model: ModelEntry | None) -> Iterator[PlanProblem]:
    if model is None:
        yield _model_problem("no-model", "No model is chosen.", "Choose one; the starter model is always there.")
    elif model.facts is not None and model.facts.is_projector:
        remedy = "Choose the model it belongs to; the projector is added by itself."
        yield _model_problem("projector", "This file is a projector for images or sound, not a model.", remedy)
    elif model.problem is not None:
        yield _model_problem(model.problem.code, model.problem.message, "Choose another model or replace the file.")
    elif model.facts is None:
        message = "The header of this file could not be read."
        yield _model_problem("model-not-read", message, "Choose another model or replace the file.")


def _model_problem(code: str, message: str, remedy: str) -> PlanProblem:
    return PlanProblem(code=code, message=message, remedy=remedy, field="model")
