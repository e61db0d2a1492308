"""A stand-in engine, plans for it, and a supervisor that is always closed."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kvarn.domain.launch.engine_build import EngineBuild
from kvarn.domain.launch.engine_status import EnginePhase, EngineStatus
from kvarn.domain.launch.launch_plan import LaunchPlan, LaunchSettings
from kvarn.domain.launch.restart_policy import NO_RESTARTS
from kvarn.domain.live.log_line import LogLevel
from kvarn.services.launch.supervisor import Supervisor

MakePlan = Callable[..., LaunchPlan]


@pytest.fixture
def fake_build(fake_engine_dir: Path) -> EngineBuild:
    """The stand-in engine, not probed: `flags` empty means that every option is passed."""
    server = fake_engine_dir / "llama-server"
    return EngineBuild(server=server, bin_dir=fake_engine_dir, base="stand-in", version="0", is_kvarn=False)


@pytest.fixture
def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def make_plan(tmp_path: Path, free_port: int) -> MakePlan:
    """`make_plan("--fake-exit", "3", slots=2)`: switches of the stand-in, then launch settings."""

    def make(*switches: str, **settings) -> LaunchPlan:
        chosen = LaunchSettings(**({"port": free_port, "extra_args": switches} | settings))
        return LaunchPlan(
            model_path=tmp_path / "model.gguf", model_title="model", mmproj=None, alias="ours", settings=chosen
        )

    return make


class Recorder:
    """Every status and log line a supervisor told."""

    def __init__(self) -> None:
        self.phases: list[EnginePhase] = []
        self.lines: list[str] = []
        self.sources: list[str] = []
        self.levels: dict[str, LogLevel | None] = {}
        """By line; None is a line judged by its words."""

    def on_log(self, source: str, line: str, level: LogLevel | None = None) -> None:
        self.sources.append(source)
        self.levels[line] = level
        self.lines.append(line)

    def on_status(self, status: EngineStatus) -> None:
        self.phases.append(status.phase)


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def make_supervisor(recorder: Recorder) -> Iterator[Callable[..., Supervisor]]:
    """Supervisors without restarts unless a policy is given, short of patience, closed at the end."""
    made: list[Supervisor] = []

    def make(**options) -> Supervisor:
        given = {"restart_policy": NO_RESTARTS, "term_grace_s": 0.5, "on_log": recorder.on_log} | options
        made.append(Supervisor(**given))
        made[-1].subscribe(recorder.on_status)
        return made[-1]

    yield make
    for supervisor in made:
        supervisor.close()


@pytest.fixture
def supervisor(make_supervisor: Callable[..., Supervisor]) -> Supervisor:
    return make_supervisor()
