"""What can happen to an engine: past-tense facts, the only input of `engine_status.advance`.

`at_s` is monotonic. Facts about a child carry no pid: the supervisor drops those of an earlier child.
"""

from __future__ import annotations

import msgspec

from kvarn.domain.launch.exit_report import ExitReport
from kvarn.domain.launch.launch_plan import LaunchPlan


class LaunchRequested(msgspec.Struct, frozen=True):
    """Somebody pressed Launch."""

    at_s: float
    plan: LaunchPlan


class StartFailed(msgspec.Struct, frozen=True):
    """No child could be made: port taken, program missing."""

    at_s: float
    report: ExitReport


class ChildStarted(msgspec.Struct, frozen=True):
    """The engine process exists."""

    at_s: float
    pid: int


class ReadySeen(msgspec.Struct, frozen=True):
    """The engine answered, and it was ours."""

    at_s: float


class StopRequested(msgspec.Struct, frozen=True):
    """Somebody pressed Stop, or the console closes."""

    at_s: float


class ChildExited(msgspec.Struct, frozen=True):
    """The engine process is gone and reaped. `will_restart` is the restart policy's word."""

    at_s: float
    report: ExitReport
    will_restart: bool = False


class RestartDue(msgspec.Struct, frozen=True):
    """The pause after a crash is over."""

    at_s: float


EngineEvent = LaunchRequested | StartFailed | ChildStarted | ReadySeen | StopRequested | ChildExited | RestartDue
