from __future__ import annotations

from pathlib import Path

import pytest

from kvarn.domain.launch.engine_status import EnginePhase, EngineStatus, ExitReport
from kvarn.domain.launch.launch_plan import LaunchPlan, LaunchSettings
from kvarn.services.launch.supervisor import Supervisor
from kvarn.viewmodels.launch.engine_vm import REFUSED, EngineVm

PLAN = LaunchPlan(model_path=Path("/m.gguf"), model_title="m", mmproj=None, alias="m", settings=LaunchSettings())
REPORT = ExitReport(kind="crashed", message="The engine crashed while serving (SIGSEGV).", remedy="Launch it again.")


@pytest.fixture
def engine(qapp):
    vm = EngineVm(Supervisor())
    yield vm
    vm.close()


@pytest.mark.parametrize("phase", EnginePhase)
def test_every_phase_has_a_dot_and_words(engine: EngineVm, phase: EnginePhase) -> None:
    engine.status = EngineStatus(phase=phase, plan=PLAN, report=REPORT)
    assert engine.dot in {"good", "busy", "bad", "off"}
    assert engine.lead
    assert engine.detail


def test_while_waiting_for_a_restart_the_reason_is_shown_and_stop_is_offered(engine: EngineVm) -> None:
    engine.status = EngineStatus(phase=EnginePhase.RESTARTING, plan=PLAN, report=REPORT)
    assert engine.detail == REPORT.message
    assert engine.can_stop
    assert engine.endpoint is None


def test_a_launch_without_a_port_is_refused_and_no_failure_of_the_engine(engine: EngineVm) -> None:
    taken = ExitReport(kind="port-taken", message="Port 5827 is used by llama-server (process 7).", remedy="")
    engine.status = EngineStatus(phase=EnginePhase.FAILED, plan=PLAN, report=taken)
    assert (engine.dot, engine.lead, engine.detail) == ("off", "Nothing is served", REFUSED)
    assert engine.failure is taken


def test_an_engine_that_lost_its_port_between_two_starts_has_failed(engine: EngineVm) -> None:
    taken = ExitReport(kind="port-taken", message="Port 5827 is used by another program.", remedy="")
    engine.status = EngineStatus(phase=EnginePhase.FAILED, plan=PLAN, report=taken, restarts=1)
    assert (engine.dot, engine.lead) == ("bad", "The engine failed")
