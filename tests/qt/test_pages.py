"""Library, Logs and Settings through their widgets."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QLabel, QLineEdit

from gguf_maker import GgufMaker
from kvarn.domain.library.model_entry import ModelEntry, ModelSource
from kvarn.domain.settings import Settings
from kvarn.services.launch.stored_key import StoredKey
from kvarn.services.library.catalog import ModelCatalog
from kvarn.services.live.log_store import LogStore
from kvarn.services.settings_store import SettingsStore
from kvarn.viewmodels.library.library_vm import LibraryVm
from kvarn.viewmodels.live.log_vm import LogVm
from kvarn.viewmodels.settings_vm import SettingsVm
from kvarn.views.library.library_page import LibraryPage
from kvarn.views.live.logs_page import LogsPage
from kvarn.views.settings_page import SettingsPage
from patience import cpu_budget

STALL_S = 0.3
"""CPU seconds between two turns of the loop that are a stall. A page that does its work at once takes seconds; one
that shares it takes up to 0.1, and on a virtual machine the host's own pauses are counted in."""
MARKUP = "<b>bold<b> &amp; %s"


class EventLoopCost:
    """The longest time the window's own thread worked between two turns of its event loop, in seconds."""

    def __init__(self) -> None:
        self.worst_s = 0.0
        self._last = 0.0
        self._beat = QTimer(interval=0)
        self._beat.timeout.connect(self._on_beat)

    def __enter__(self) -> EventLoopCost:
        # What earlier tests left alive is nothing the collector should walk through on this test's account.
        gc.collect()
        gc.freeze()
        self._last = time.thread_time()
        self._beat.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._beat.stop()
        gc.unfreeze()

    def _on_beat(self) -> None:
        now = time.thread_time()
        self.worst_s, self._last = max(self.worst_s, now - self._last), now


@pytest.fixture
def settings(themed, tmp_path: Path) -> SettingsVm:
    return SettingsVm(SettingsStore(tmp_path / "settings.toml"), StoredKey(tmp_path / "api-key"), {})


@pytest.fixture
def library(qtbot, settings: SettingsVm, tmp_path: Path) -> Iterator[tuple[LibraryPage, LibraryVm]]:
    folder = tmp_path / "models"
    folder.mkdir()
    GgufMaker.llama(name=MARKUP).with_weights().write(folder / f"{MARKUP}.gguf")
    (folder / "cut.gguf").write_bytes(GgufMaker.llama().with_weights().dump()[:-1])
    (folder / "page.gguf").write_text("<!doctype html><html>login</html>")
    settings.change(scan_other_tools=False, model_folders=(str(folder),))
    catalog = ModelCatalog(lambda: settings.settings)
    vm = LibraryVm(catalog, settings)
    page = LibraryPage(vm)
    page.show()
    vm.rescan()
    qtbot.waitUntil(lambda: not vm.is_scanning, timeout=60_000)
    yield page, vm
    page.close()
    page.deleteLater()
    vm.close()
    catalog.close()


def row_of(page: LibraryPage, part: str) -> int:
    table = page.table_model
    return next(row for row in range(table.rowCount()) if part in table.index(row, 0).data())


def test_good_and_broken_files_stand_side_by_side_with_their_facts_or_reasons(qtbot, library) -> None:
    page, _vm = library
    assert page.table_model.rowCount() >= 3
    page.table.selectRow(row_of(page, "cut"))
    assert not page.details.use_button.isEnabled()
    assert any("incomplete" in label.text() for label in page.details.findChildren(QLabel))
    page.table.selectRow(row_of(page, "<b>"))
    assert page.details.use_button.isEnabled()
    shown = [label.text().replace("\u200b", "") for label in page.details.findChildren(QLabel)]
    assert MARKUP in shown
    assert all(label.textFormat() is Qt.TextFormat.PlainText for label in page.details.findChildren(QLabel))
    with qtbot.waitSignal(page.model_wanted) as wanted:
        page.details.use_button.click()
    assert "<b>bold" in wanted.args[0]


def test_the_filter_keeps_the_choice_and_counts_what_it_shows(library) -> None:
    page, _vm = library
    page.filter.setText("cut")
    assert page.table_model.rowCount() == 1
    assert page.count.text().startswith("1 of ")
    page.filter.setText("no such model")
    assert page.table_model.rowCount() == 0
    assert not page.details.use_button.isEnabled()


def test_names_get_the_width_that_is_to_spare(qtbot, library) -> None:
    page, _vm = library
    page.resize(1300, 700)
    page.show()
    header, wide = (
        page.table.horizontalHeader(),
        page.table.fontMetrics().horizontalAdvance("Llama-3.2-3B-Instruct.Q4_K"),
    )
    qtbot.waitUntil(lambda: header.sectionSize(0) > wide)
    assert header.length() <= page.table.viewport().width()


def test_a_long_scan_can_be_cancelled_and_leaves_the_list(library) -> None:
    page, vm = library
    before = page.table_model.rowCount()
    page.rescan_button.click()
    assert page.rescan_button.text() == "Cancel"
    page.rescan_button.click()
    assert page.rescan_button.text() == "Rescan"
    assert not vm.is_scanning
    assert page.table_model.rowCount() == before


def test_two_thousand_models_never_hold_the_window_up(qtbot, library) -> None:
    page, vm = library
    one = vm.entries[0]
    many = tuple(_copy(one, number) for number in range(2000))
    with EventLoopCost() as cost:
        for count in (500, 1000, 2000):
            page.table_model.set_entries(many[:count])
            qtbot.wait(20)
        page.filter.setText("1999")
        qtbot.wait(20)
    assert cost.worst_s < cpu_budget(STALL_S)
    assert page.table_model.rowCount() == 1


def _copy(entry: ModelEntry, number: int) -> ModelEntry:
    return ModelEntry(
        id=f"model-{number}",
        title=f"model-{number}",
        paths=(Path(f"/models/model-{number}.gguf"),),
        source=ModelSource.FOLDER,
        file_bytes=number,
        facts=entry.facts,
        problem=entry.problem,
    )


@pytest.fixture
def logs(qtbot, themed, tmp_path: Path) -> Iterator[tuple[LogsPage, LogStore]]:
    store = LogStore(tmp_path / "kvarn.log")
    vm = LogVm(store)
    page = LogsPage(vm)
    page.resize(900, 600)
    page.show()
    yield page, store
    page.close()
    page.deleteLater()
    vm.close()
    store.close()


def rows_shown(page: LogsPage) -> Callable[[int], Callable[[], bool]]:
    return lambda count: lambda: page.table.model().rowCount() >= count


def test_a_burst_of_two_hundred_thousand_lines_never_holds_the_window_up(qtbot, logs) -> None:
    page, store = logs

    def talk() -> None:
        for number in range(200_000):
            store.append("engine", f"{number:010d} slot update: task {number} | n_past = {number}, " + "." * 60)

    talker = threading.Thread(target=talk)
    with EventLoopCost() as cost:
        talker.start()
        qtbot.waitUntil(
            lambda: not talker.is_alive() and page.table.model().lines[-1].text.startswith("0000199999"), timeout=60_000
        )
    # Work of the window's own thread: waiting for a busy machine is no fault of the page.
    assert cost.worst_s < cpu_budget(STALL_S)
    talker.join()
    assert page.table.model().rowCount() <= 20_000
    assert page.is_following


def test_scrolling_up_stops_following_and_reaching_the_end_takes_it_up_again(qtbot, logs) -> None:
    page, store = logs
    for number in range(300):
        store.append("engine", f"line {number}")
    qtbot.waitUntil(rows_shown(page)(300), timeout=60_000)
    bar = page.table.verticalScrollBar()
    # The table lays itself out later than its rows are there.
    qtbot.waitUntil(lambda: bar.value() == bar.maximum() == 300 - bar.pageStep(), timeout=60_000)
    bar.setValue(10)
    assert not page.is_following
    store.append("engine", "one more")
    qtbot.waitUntil(rows_shown(page)(301), timeout=60_000)
    qtbot.waitUntil(lambda: bar.maximum() == 301 - bar.pageStep(), timeout=60_000)
    assert bar.value() == 10
    bar.setValue(bar.maximum())
    assert page.is_following


def test_search_goes_from_match_to_match_and_copies_whole_lines_letter_for_letter(qtbot, logs) -> None:
    page, store = logs
    long = "error: <b>needle</b> &amp; " + "x" * 2000
    for text in ("first", long, "between", "Needle again"):
        store.append("engine", text)
    qtbot.waitUntil(rows_shown(page)(4), timeout=60_000)
    qtbot.keyClick(page, Qt.Key.Key_F, Qt.KeyboardModifier.ControlModifier)
    page.search.setText("needle")
    assert page.matches.text() == "2 lines"
    page.find_next(1)
    assert page.table.currentIndex().row() == 1
    assert page.line.text() == long[:2000]
    page.copy_button.click()
    assert long in QGuiApplication.clipboard().text()
    page.find_next(1)
    assert page.table.currentIndex().row() == 3


@pytest.fixture
def settings_page(settings: SettingsVm) -> Iterator[SettingsPage]:
    page = SettingsPage(settings)
    page.show()
    yield page
    page.close()
    page.deleteLater()


def test_a_changed_setting_is_marked_and_can_be_reset(settings_page: SettingsPage, settings: SettingsVm) -> None:
    row = settings_page.rows["port"]
    assert not row.changed.isVisible()
    settings_page.port.setValue(6001)
    assert settings.settings.port == 6001
    assert row.changed.isVisible()
    row.reset.click()
    assert settings.settings == Settings()
    assert not row.changed.isVisible()


def test_the_key_is_made_copied_and_never_shown(settings_page: SettingsPage, settings: SettingsVm) -> None:
    settings_page.lan.click()
    assert settings_page.key_hint.property("role") == "warn"
    settings_page.new_key.click()
    assert settings.key
    assert settings_page.key.echoMode() is QLineEdit.EchoMode.Password
    shown = [label.text() for label in settings_page.findChildren(QLabel)]
    assert not any(settings.key in text for text in shown)
    settings_page.copy_key.copy()
    assert QGuiApplication.clipboard().text() == settings.key


def test_an_environment_variable_that_wins_is_told_beside_the_value(themed, tmp_path: Path) -> None:
    environ = {"KVARN_ENGINE_DIR": "/opt/engine"}
    vm = SettingsVm(SettingsStore(tmp_path / "settings.toml"), StoredKey(tmp_path / "api-key"), environ)
    page = SettingsPage(vm)
    assert page.rows["engine_dir"].override.text().startswith("KVARN_ENGINE_DIR is set")
    page.deleteLater()
