"""Finished requests as rows."""

from __future__ import annotations

import time

from kvarn.domain.live.request import FinishedRequest
from kvarn.services.live.request_log import RequestLog
from kvarn.viewmodels.live.requests_vm import KEPT_ROWS, RequestsVm


class Hands:
    """A monotonic and a wall clock; only the wall clock moves while the machine sleeps."""

    def __init__(self) -> None:
        self.monotonic_s, self.wall_s = 100.0, 1_700_000_000.0

    def now(self) -> float:
        return self.monotonic_s

    def sleep(self, seconds: float) -> None:
        self.monotonic_s += seconds
        self.wall_s += seconds


def of_day(wall_s: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(wall_s))


def test_times_of_day_stay_true_when_the_machine_sleeps_in_between(qapp) -> None:
    hands, log = Hands(), RequestLog()
    vm = RequestsVm(log, clock=hands, wall=lambda: hands.wall_s)
    log.append(FinishedRequest(ended_s=99.0))
    vm.refresh()
    hands.wall_s += 36_000
    hands.sleep(10)
    log.append(FinishedRequest(ended_s=109.0))
    vm.refresh()
    assert [row[0] for row in vm.rows] == [of_day(1_700_036_009), of_day(1_699_999_999)]


def test_only_the_newest_rows_are_kept(qapp) -> None:
    log = RequestLog()
    vm = RequestsVm(log)
    for number in range(KEPT_ROWS + 5):
        log.append(FinishedRequest(ended_s=0, prompt_tokens=number))
    vm.refresh()
    assert len(vm.rows) == KEPT_ROWS
    assert vm.rows[0][1] == str(KEPT_ROWS + 4)
