"""The launch form through its widgets, over real services and a stand-in engine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from gguf_maker import GgufMaker
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QLabel, QPushButton, QWidget

from kvarn.domain.launch.engine_status import EnginePhase
from kvarn.domain.launch.launch_plan import FlashAttention
from kvarn.domain.settings import ThemeChoice
from kvarn.main import Console, Services
from kvarn.services.launch.port_owner import next_free_port
from kvarn.views.launch.launch_panel import LaunchPanel

EVIL = "<b>bold</b> &amp; %s"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    GgufMaker.llama(name=EVIL).with_weights().write(tmp_path / "<b>bold<b> &amp; %s.gguf")
    (tmp_path / "cut.gguf").write_bytes(GgufMaker.llama().with_weights().dump()[:-1])
    return tmp_path


@pytest.fixture
def console(
    qapp: QApplication, qtbot, fake_engine_dir: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Console]:
    monkeypatch.setenv("KVARN_ENGINE_DIR", str(fake_engine_dir))
    console = Console(qapp, Services())
    console.settings.add_folder(str(folder))
    console.show()
    qtbot.waitUntil(lambda: console.library.is_complete and console.launch.build is not None, timeout=20_000)
    port = next_free_port("127.0.0.1", 21_000 + os.getpid() % 10_000)
    console.launch.edit(port=port, context_tokens=512)
    qtbot.waitUntil(lambda: console.launch.can_launch, timeout=5_000)
    yield console
    console.window.close()
    console.close()
    console.theme.choose(ThemeChoice.SYSTEM)
    console.window.deleteLater()
    qapp.setStyleSheet("")


@pytest.fixture
def panel(console: Console) -> LaunchPanel:
    found = console.window.findChild(LaunchPanel)
    assert found is not None
    return found


def texts(widget: QWidget) -> list[str]:
    return [label.text() for label in widget.findChildren(QLabel) if label.isVisibleTo(widget)]


def cure_button(box) -> QPushButton:
    return next(b for b in box.notes.findChildren(QPushButton) if b.isVisibleTo(box.notes))


def test_the_first_start_needs_no_reading(console: Console, panel: LaunchPanel) -> None:
    assert console.launch.draft.model is not None
    assert console.launch.draft.model.source.value == "starter"
    assert panel.launch_button.isEnabled()
    assert panel.launch_button.text() == "Launch"


def test_v_follows_k_until_it_gets_a_type_of_its_own(console: Console, panel: LaunchPanel) -> None:
    panel.kv_k.chosen.emit("q8_0")
    assert (console.launch.settings.kv_k, console.launch.settings.kv_v) == ("q8_0", "q8_0")
    assert panel.kv_v.currentText() == "same as K"
    panel.kv_v.chosen.emit("q4_0")
    panel.kv_k.chosen.emit("f16")
    assert (console.launch.settings.kv_k, console.launch.settings.kv_v) == ("f16", "q4_0")
    panel.kv_v.chosen.emit("")
    assert console.launch.settings.kv_v == "f16"


def test_quantised_v_without_flash_attention_is_explained_and_cured_by_one_press(
    qtbot, console: Console, panel: LaunchPanel
) -> None:
    panel.kv_k.chosen.emit("f16")
    panel.kv_v.chosen.emit("q4_0")
    panel.flash.chosen.emit("off")
    assert not panel.launch_button.isEnabled()
    assert not console.launch.launch()
    button = cure_button(panel.boxes["flash_attention"])
    assert button.text() == "Set flash attention to auto"
    button.click()
    assert console.launch.settings.flash_attention is FlashAttention.AUTO
    assert panel.launch_button.isEnabled()
    panel.kv_k.chosen.emit("q4_0")
    panel.kv_v.chosen.emit("f16")
    panel.flash.chosen.emit("off")
    assert panel.launch_button.isEnabled(), "a quantised K alone needs no flash attention"


def test_a_type_this_engine_lacks_is_shown_greyed_with_the_reason_and_replaced_only_when_asked(
    console: Console, panel: LaunchPanel
) -> None:
    console.launch.edit(kv_k="Q8_0", kv_v="f16")
    row = panel.kv_k.currentIndex()
    assert panel.kv_k.itemText(row) == "Q8_0"
    assert not panel.kv_k.model().item(row).isEnabled()
    assert console.launch.settings.kv_k == "Q8_0"
    assert cure_button(panel.boxes["kv_k"]).text() == "Use q8_0"
    cure_button(panel.boxes["kv_k"]).click()
    assert console.launch.settings.kv_k == "q8_0"


def test_context_is_told_per_conversation_and_in_total(console: Console, panel: LaunchPanel) -> None:
    panel.context.number.setValue(2048)
    panel.slots.setValue(2)
    assert panel.context.totals.text() == "2,048 per conversation · 4,096 in total"
    assert "--ctx-size 4096 --parallel 2" in console.launch.command_text()
    before = console.budget.budget.total_bytes
    panel.slots.setValue(4)
    assert console.budget.budget.total_bytes > before


def test_the_slider_is_logarithmic_and_ends_at_the_trained_context(console: Console, panel: LaunchPanel) -> None:
    panel.context.slider.setValue(panel.context.slider.maximum())
    assert console.launch.settings.context_tokens == 8192
    panel.context.slider.setValue(panel.context.slider.maximum() - 8)
    assert console.launch.settings.context_tokens == 4096
    assert panel.context.number.text() == "4,096"


def test_the_form_says_relaunch_needed_until_the_engine_really_runs_its_values(
    qtbot, console: Console, panel: LaunchPanel
) -> None:
    panel.launch_button.click()
    qtbot.waitUntil(lambda: console.launch.status.phase is EnginePhase.READY, timeout=20_000)
    assert panel.launch_button.text() == "Relaunch"
    assert not panel.relaunch_note.isVisible()
    panel.context.number.setValue(1024)
    assert panel.relaunch_note.text() == "Relaunch needed: Context 512 → 1,024"
    first_pid = console.launch.status.pid
    panel.launch_button.click()
    qtbot.waitUntil(
        lambda: console.launch.status.phase is EnginePhase.READY and console.launch.status.pid != first_pid,
        timeout=20_000,
    )
    assert console.launch.status.plan.settings.context_tokens == 1024
    assert not panel.relaunch_note.isVisible()
    qtbot.waitUntil(lambda: bool(console.asked_got.rows), timeout=10_000)
    got = {row.label: (row.asked, row.got, row.agrees) for row in console.asked_got.rows}
    assert got["Context per slot"] == ("1,024", "1,024", True)
    panel.stop_button.click()
    qtbot.waitUntil(lambda: not console.launch.status.is_active, timeout=10_000)
    assert panel.launch_button.text() == "Launch"


def test_each_model_keeps_its_own_settings_and_the_last_launch_comes_back(
    qtbot, console: Console, panel: LaunchPanel
) -> None:
    starter = console.launch.draft.model.id
    other = next(e.id for e in console.library.entries if e.is_servable and e.id != starter)
    panel.context.number.setValue(1024)
    console.launch.choose_model(other)
    panel.context.number.setValue(256)
    console.launch.choose_model(starter)
    assert console.launch.settings.context_tokens == 1024
    console.launch.choose_model(other)
    assert console.launch.settings.context_tokens == 256
    qtbot.waitUntil(lambda: console.launch.can_launch, timeout=5_000)
    assert console.launch.launch()
    assert console.settings.settings.last_model == other
    assert console.profiles.profiles["last launch"].context_tokens == 256
    console.launch.stop()
    qtbot.waitUntil(lambda: not console.launch.status.is_active, timeout=10_000)


def test_a_taken_port_names_its_owner_and_offers_a_free_one(qtbot, console: Console, panel: LaunchPanel) -> None:
    import socket

    with socket.socket() as squatter:
        squatter.bind(("127.0.0.1", 0))
        squatter.listen(1)
        taken = squatter.getsockname()[1]
        console.launch.edit(port=taken)
        qtbot.waitUntil(lambda: console.launch.port_problem is not None, timeout=10_000)
        box = panel.advanced.boxes["port"]
        assert any(f"Port {taken} is used by" in text for text in texts(box.notes))
        assert not panel.launch_button.isEnabled()
        cure_button(box).click()
        assert console.launch.settings.port != taken
        qtbot.waitUntil(lambda: console.launch.can_launch, timeout=10_000)


def test_the_picker_searches_greys_what_cannot_be_served_and_says_why(
    qtbot, console: Console, panel: LaunchPanel
) -> None:
    qtbot.keyClick(panel.model, Qt.Key.Key_C)
    popup = panel.model.popup
    assert popup.isVisible()
    assert popup.search.text().lower() == "c"
    popup.search.setText("cut")
    assert popup.table.rowCount() == 1
    assert "incomplete" in popup.reason.text()
    before = console.launch.draft.model
    qtbot.keyClick(popup.search, Qt.Key.Key_Return)
    assert console.launch.draft.model == before
    popup.search.setText("bold")
    qtbot.keyClick(popup.search, Qt.Key.Key_Return)
    assert not popup.isVisible()
    assert console.launch.draft.model.path.name.startswith("<b>bold")
    assert "<b>bold" in panel.model.currentText()


def test_every_control_is_reached_by_the_keyboard_and_has_a_name(console: Console, panel: LaunchPanel) -> None:
    panel.advanced.open()
    wanted = {
        panel.model,
        panel.kv_k,
        panel.kv_v,
        panel.context.slider,
        panel.context.number,
        panel.slots,
        panel.flash,
        panel.speculation,
        panel.advanced.toggle,
        panel.advanced.port,
        panel.advanced.extra,
        panel.launch_button,
        panel.copy_button,
    }
    reached, widget = set(), panel.model
    for _ in range(200):
        reached.add(widget)
        widget = widget.nextInFocusChain()
    assert wanted <= reached
    for control in wanted:
        assert control.focusPolicy() & Qt.FocusPolicy.TabFocus
        assert control.accessibleName() or control.text(), control


def test_profiles_keep_their_own_values_and_travel_as_files(console: Console, tmp_path: Path) -> None:
    profiles, launch = console.profiles, console.launch
    launch.edit(context_tokens=512)
    assert profiles.save("small")
    launch.edit(context_tokens=4096, extra_args=("--verbose",))
    assert profiles.save("large")
    profiles.use("small")
    assert (launch.settings.context_tokens, profiles.current) == (512, "small")
    assert profiles.export_to("large", tmp_path / "large.json")
    assert profiles.delete("large")
    assert "large" not in profiles.profiles
    assert profiles.import_from(tmp_path / "large.json")
    assert launch.settings.context_tokens == 4096
    (tmp_path / "bad.json").write_text("{}")
    assert not profiles.import_from(tmp_path / "bad.json")
    assert "not a launch profile" in profiles.problem


def test_closing_in_the_middle_of_a_scan_and_a_dry_run_ends_cleanly(
    qtbot, console: Console, panel: LaunchPanel
) -> None:
    console.library.rescan()
    panel.context.number.setValue(768)
    console.window.close()
