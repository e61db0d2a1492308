"""The engine the form plans for, or the problem that there is none."""

from __future__ import annotations

from collections.abc import Callable

from kvarn.domain.errors import KvarnError
from kvarn.domain.launch.engine_build import EngineBuild
from kvarn.domain.launch.launch_plan import PlanProblem
from kvarn.domain.settings import Settings


def build_or_problem(
    locate: Callable[[Settings], EngineBuild],
) -> Callable[[Settings, object], EngineBuild | PlanProblem]:
    """`locate` for a background worker: its errors become a problem of the form."""

    def answer(settings: Settings, _is_stale: object) -> EngineBuild | PlanProblem:
        try:
            return locate(settings)
        except KvarnError as error:
            return PlanProblem(
                code="engine-not-found",
                message=str(error),
                remedy="Set the engine folder in Settings, or install Kvarn's own engine.",
                field="engine_dir",
            )

    return answer
