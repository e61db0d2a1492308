from __future__ import annotations

from pathlib import Path

import pytest

from kvarn.domain.launch.engine_events import (
    ChildExited,
    ChildStarted,
    LaunchRequested,
    ReadySeen,
    RestartDue,
    StartFailed,
    StopRequested,
)
from kvarn.domain.launch.engine_status import EnginePhase, EngineStatus, ImpossibleEventError, advance
from kvarn.domain.launch.exit_report import ExitReport
from kvarn.domain.launch.launch_plan import LaunchPlan, LaunchSettings

PLAN = LaunchPlan(model_path=Path("/m.gguf"), model_title="m", mmproj=None, alias="m", settings=LaunchSettings())
REPORT = ExitReport(kind="crashed", message="It crashed.", remedy="")
EVENTS = {
    "launch": LaunchRequested(9.0, PLAN),
    "start failed": StartFailed(9.0, REPORT),
    "child": ChildStarted(9.0, 42),
    "ready": ReadySeen(9.0),
    "stop": StopRequested(9.0),
    "exit": ChildExited(9.0, REPORT),
    "exit, will restart": ChildExited(9.0, REPORT, will_restart=True),
    "restart": RestartDue(9.0),
}
# Every pair that may happen; all others are defects.
WANTED = {
    ("stopped", "launch"): "starting",
    ("stopped", "stop"): "stopped",
    ("failed", "launch"): "starting",
    ("failed", "stop"): "failed",
    ("starting", "launch"): "starting",
    ("starting", "start failed"): "failed",
    ("starting", "child"): "loading",
    ("starting", "stop"): "stopped",
    ("loading", "launch"): "loading",
    ("loading", "ready"): "ready",
    ("loading", "stop"): "stopping",
    ("loading", "exit"): "failed",
    ("loading", "exit, will restart"): "failed",
    ("ready", "launch"): "ready",
    ("ready", "stop"): "stopping",
    ("ready", "exit"): "failed",
    ("ready", "exit, will restart"): "restarting",
    ("stopping", "launch"): "stopping",
    ("stopping", "stop"): "stopping",
    ("stopping", "ready"): "stopping",
    ("stopping", "exit"): "stopped",
    ("stopping", "exit, will restart"): "stopped",
    ("restarting", "launch"): "restarting",
    ("restarting", "stop"): "stopped",
    ("restarting", "restart"): "starting",
}


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("phase", EnginePhase)
def test_each_pair_of_phase_and_event_leads_where_the_table_says_or_is_refused(phase: EnginePhase, event: str) -> None:
    status = EngineStatus(phase=phase, plan=PLAN, since_s=1.0)
    wanted = WANTED.get((phase.value, event))
    if wanted is None:
        with pytest.raises(ImpossibleEventError, match=phase.value):
            advance(status, EVENTS[event])
    else:
        assert advance(status, EVENTS[event]).phase == wanted


def test_an_event_that_changes_nothing_returns_the_same_object() -> None:
    status = EngineStatus(phase=EnginePhase.READY, plan=PLAN)
    assert advance(status, EVENTS["launch"]) is status


def test_a_new_launch_forgets_the_last_end_and_counts_restarts_afresh() -> None:
    failed = EngineStatus(phase=EnginePhase.FAILED, plan=PLAN, report=REPORT, restarts=3)
    status = advance(failed, EVENTS["launch"])
    assert (status.report, status.restarts) == (None, 0)


def test_the_endpoint_exists_only_while_ready_and_a_crash_keeps_the_report() -> None:
    loading = EngineStatus(phase=EnginePhase.LOADING, plan=PLAN, pid=42)
    ready = advance(loading, EVENTS["ready"])
    assert loading.endpoint is None
    assert ready.endpoint == "http://127.0.0.1:5827/v1"
    assert ready.ready_since_s == 9.0
    crashed = advance(ready, EVENTS["exit"])
    assert (crashed.endpoint, crashed.pid, crashed.report) == (None, None, REPORT)
    assert crashed.plan == PLAN


def test_each_restart_is_counted() -> None:
    waiting = EngineStatus(phase=EnginePhase.RESTARTING, plan=PLAN, restarts=1, report=REPORT)
    assert advance(waiting, EVENTS["restart"]).restarts == 2


def test_stop_while_waiting_for_a_restart_keeps_the_reason_of_the_crash() -> None:
    waiting = EngineStatus(phase=EnginePhase.RESTARTING, plan=PLAN, report=REPORT)
    assert advance(waiting, EVENTS["stop"]).report == REPORT


@pytest.mark.parametrize(
    ("host", "url"),
    [("0.0.0.0", "http://127.0.0.1:5827"), ("::", "http://[::1]:5827"), ("192.168.1.5", "http://192.168.1.5:5827")],
)
def test_a_wildcard_host_is_reached_over_loopback(host: str, url: str) -> None:
    plan = LaunchPlan(
        model_path=Path("/m.gguf"), model_title="m", mmproj=None, alias="", settings=LaunchSettings(host=host)
    )
    assert plan.base_url == url
