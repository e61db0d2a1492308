"""The figures and the header tell one story: no card denies an engine that the header says is serving."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QObject, Signal

from kvarn.domain.launch.engine_status import EnginePhase, EngineStatus
from kvarn.services.live.request_log import RequestLog
from kvarn.services.live.telemetry_link import NOT_YET, LinkState
from kvarn.services.live.telemetry_store import TelemetryStore
from kvarn.viewmodels.live.graph_vm import GraphVm
from kvarn.viewmodels.live.headlines import NOT_MEASURED
from kvarn.viewmodels.live.live_vm import LiveVm
from kvarn.viewmodels.live.requests_vm import RequestsVm


class Engine(QObject):
    """Stands in for EngineVm."""

    changed = Signal()

    def __init__(self, phase: EnginePhase) -> None:
        super().__init__()
        self.status = EngineStatus(phase=phase)


def live_vm(phase: EnginePhase, link: LinkState) -> LiveVm:
    graph = GraphVm(TelemetryStore())
    return LiveVm(graph, RequestsVm(RequestLog()), Engine(phase), why_missing=link.why_missing)


def subs(vm: LiveVm) -> set[str]:
    return {headline.sub for headline in vm.headlines()}


def test_an_engine_that_has_just_become_ready_has_not_answered_yet(qapp) -> None:
    vm = live_vm(EnginePhase.READY, LinkState())
    assert subs(vm) == {NOT_YET}
    assert vm.why_no_inside() == NOT_YET


def test_a_connected_engine_without_a_figure_is_not_denied(qapp) -> None:
    vm = live_vm(EnginePhase.READY, LinkState(attached=True, connected=True, reason=""))
    assert subs(vm) == {"no answer yet", NOT_MEASURED}


@pytest.mark.parametrize(
    ("phase", "sentence"),
    [
        (EnginePhase.STARTING, "the model is loading"),
        (EnginePhase.LOADING, "the model is loading"),
        (EnginePhase.STOPPING, "the engine is stopping"),
        (EnginePhase.STOPPED, "no engine is running"),
        (EnginePhase.FAILED, "no engine is running"),
    ],
)
def test_without_a_ready_engine_the_phase_is_the_reason(qapp, phase, sentence) -> None:
    assert subs(live_vm(phase, LinkState())) == {sentence}
