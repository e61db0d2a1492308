"""The log page's rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvarn.services.live.log_store import LogStore
from kvarn.viewmodels.live import log_vm
from kvarn.viewmodels.live.log_vm import MOST_PER_TICK, MOST_ROWS, LogVm


@pytest.fixture
def store(tmp_path: Path):
    store = LogStore(tmp_path / "kvarn.log")
    yield store
    store.close()


def test_rows_are_bounded_and_the_newest_stay(qapp, store: LogStore) -> None:
    vm = LogVm(store)
    for number in range(MOST_ROWS + 3000):
        store.append("engine", f"line {number}")
        if number % MOST_PER_TICK == 0:
            vm.pull()
    for _ in range(3):
        vm.pull()
    assert vm.rows.rowCount() == MOST_ROWS
    assert vm.rows.lines[-1].text == f"line {MOST_ROWS + 2999}"


def test_lines_that_came_faster_than_the_ring_holds_are_counted(qapp, tmp_path: Path) -> None:
    store = LogStore(tmp_path / "k.log", lines_kept=100)
    vm = LogVm(store)
    for number in range(250):
        store.append("engine", str(number))
    vm.pull()
    assert (vm.rows.rowCount(), vm.skipped) == (100, 150)
    store.close()


def test_a_filter_reads_the_ring_again_and_holds_for_new_lines(qapp, store: LogStore) -> None:
    vm = LogVm(store)
    for text in ("fine", "W something odd", "error: broken"):
        store.append("engine", text)
    store.append("kvarn", "error: ours")
    vm.pull()
    vm.set_filter(frozenset({"error"}), frozenset({"engine"}))
    store.append("engine", "failed again")
    vm.pull()
    assert [line.text for line in vm.rows.lines] == ["error: broken", "failed again"]
    vm.set_filter(frozenset(), frozenset())
    assert vm.rows.rowCount() == 5


def test_search_finds_the_next_match_around_the_end(qapp, store: LogStore) -> None:
    vm = LogVm(store)
    for text in ("Alpha", "beta", "alpha again"):
        store.append("engine", text)
    vm.pull()
    assert vm.count_matches("ALPHA") == 2
    assert vm.find("alpha", 1) == 2
    assert vm.find("alpha", 3) == 0
    assert vm.find("alpha", 1, -1) == 0
    assert vm.find("nowhere", 0) is None


def test_a_hidden_page_pulls_nothing_and_catches_up(qtbot, store: LogStore) -> None:
    vm = LogVm(store)
    vm.set_visible(True)
    vm.set_visible(False)
    store.append("engine", "meanwhile")
    qtbot.wait(3 * log_vm.REFRESH_MS)
    assert vm.rows.rowCount() == 0
    vm.set_visible(True)
    assert vm.rows.rowCount() == 1
    vm.close()
