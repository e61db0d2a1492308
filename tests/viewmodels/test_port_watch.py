"""A port is asked for again only while its problem is there and seen."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kvarn.domain.launch.launch_plan import PlanProblem
from kvarn.viewmodels.launch import port_watch
from kvarn.viewmodels.launch.port_watch import PortWatch

TAKEN = PlanProblem(code="port-taken", message="Port 5827 is used by b (process 7).", remedy="", field="port")


class Ports:
    """Stands in for the system."""

    def __init__(self) -> None:
        self.problem: PlanProblem | None = TAKEN
        self.asked = 0

    def __call__(self, host: str, port: int) -> PlanProblem | None:
        self.asked += 1
        return self.problem


@pytest.fixture
def ports(monkeypatch) -> Ports:
    monkeypatch.setattr(port_watch, "ASK_AGAIN_MS", 20)
    monkeypatch.setattr(port_watch, "_SETTLE_S", 0.0)
    return Ports()


@pytest.fixture
def watch(qapp, ports: Ports) -> Iterator[PortWatch]:
    watch = PortWatch(ports)
    yield watch
    watch.close()


def test_a_problem_that_is_seen_goes_when_the_port_is_free(qtbot, ports: Ports, watch: PortWatch) -> None:
    watch.set_visible(True)
    watch.look_at("127.0.0.1", 5827)
    qtbot.waitUntil(lambda: watch.problem is TAKEN)
    with qtbot.waitSignal(watch.changed):
        ports.problem = None
    assert watch.problem is None
    asked = ports.asked
    qtbot.wait(100)
    assert ports.asked == asked


def test_a_problem_nobody_sees_is_not_asked_for_again_until_it_is_shown(qtbot, ports: Ports, watch: PortWatch) -> None:
    watch.look_at("127.0.0.1", 5827)
    qtbot.waitUntil(lambda: watch.problem is TAKEN)
    qtbot.wait(100)
    assert ports.asked == 1
    watch.set_visible(True)
    qtbot.waitUntil(lambda: ports.asked > 1)


def test_our_own_port_is_no_problem(qtbot, ports: Ports, watch: PortWatch) -> None:
    watch.set_visible(True)
    watch.look_at("127.0.0.1", 5827)
    qtbot.waitUntil(lambda: watch.problem is TAKEN)
    watch.forget()
    asked = ports.asked
    qtbot.wait(100)
    assert watch.problem is None
    assert ports.asked <= asked + 1, "one answer may have been on its way"
