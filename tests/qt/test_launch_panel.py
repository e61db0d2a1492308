"""The launch form through its widgets, over real services and a stand-in engine."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QPushButton, QWidget

from gguf_maker import GgufMaker
from kvarn.domain.launch.engine_build import EngineBuild
from kvarn.domain.launch.engine_status import EnginePhase
from kvarn.domain.launch.launch_plan import FlashAttention
from kvarn.domain.settings import Settings
from kvarn.services.launch.engine_locator import locate_engine
from kvarn.services.launch.port_owner import next_free_port, port_problem
from kvarn.services.launch.profile_store import ProfileStore
from kvarn.services.launch.props import fetch_props
from kvarn.services.launch.stored_key import StoredKey
from kvarn.services.launch.supervisor import Supervisor
from kvarn.services.library.catalog import Listing, scan_now
from kvarn.services.settings_store import SettingsStore
from kvarn.viewmodels.launch.asked_got_vm import AskedGotVm
from kvarn.viewmodels.launch.budget_vm import BudgetVm
from kvarn.viewmodels.launch.launch_vm import LaunchVm
from kvarn.viewmodels.launch.profiles_vm import ProfilesVm
from kvarn.viewmodels.library.library_vm import LibraryVm
from kvarn.viewmodels.settings_vm import SettingsVm
from kvarn.views.launch.launch_panel import LaunchPanel

EVIL = "<b>bold<b> &amp; %s"


class Form:
    """The launch form over real services; only the listing is made beforehand, once for all tests."""

    def __init__(self, listing: Listing, build: EngineBuild) -> None:
        self.keys = StoredKey()
        self.settings = SettingsVm(SettingsStore(), self.keys)
        self.supervisor = Supervisor()
        self.catalog = FinishedCatalog(listing)
        self.library = LibraryVm(self.catalog, self.settings)
        self.budget = BudgetVm(
            free_bytes=lambda build, layers, outgoing: 8 << 30,
            dry_run=lambda plan, build, is_stale: None,
            calibration=lambda: None,
            last_grades=lambda count: (),
        )
        store = ProfileStore()
        self.launch = LaunchVm(
            library=self.library,
            settings=self.settings,
            supervisor=self.supervisor,
            profiles=store,
            budget=self.budget,
            locate=lambda settings: build,
            find_port_problem=port_problem,
            find_free_port=next_free_port,
            api_key=self.keys.key,
        )
        self.profiles = ProfilesVm(store, self.launch)
        self.asked_got = AskedGotVm(self.launch, self.budget, lambda status: fetch_props(status.plan.base_url, None))
        self.panel = LaunchPanel(
            self.launch,
            library=self.library,
            budget=self.budget,
            profiles=self.profiles,
            asked_got=self.asked_got,
        )

    def close(self) -> None:
        self.panel.close()
        for part in (self.asked_got, self.launch, self.budget, self.library, self.supervisor):
            part.close()
        self.panel.deleteLater()


class FinishedCatalog:
    """A catalog whose scan has ended."""

    def __init__(self, listing: Listing) -> None:
        self._listing = listing

    def listing(self) -> Listing:
        return self._listing

    def subscribe(self, callback: Callable[[Listing], None]) -> Callable[[], None]:
        return lambda: None

    def start_scan(self) -> None: ...

    def cancel(self) -> None: ...


@pytest.fixture(scope="module")
def listing(tmp_path_factory: pytest.TempPathFactory) -> Listing:
    folder = tmp_path_factory.mktemp("models")
    GgufMaker.llama(name=EVIL).with_weights().write(folder / f"{EVIL}.gguf")
    (folder / "cut.gguf").write_bytes(GgufMaker.llama().with_weights().dump()[:-1])
    return scan_now(Settings(model_folders=(str(folder),), scan_other_tools=False))


@pytest.fixture
def form(qtbot, themed, fake_engine_dir: Path, listing: Listing) -> Iterator[Form]:
    form = Form(listing, locate_engine(Settings(engine_dir=str(fake_engine_dir))))
    form.panel.resize(360, 900)
    form.panel.show()
    form.launch.edit(port=next_free_port("127.0.0.1", 21_000 + os.getpid() % 10_000), context_tokens=512)
    qtbot.waitUntil(lambda: form.launch.can_launch, timeout=60_000)
    yield form
    form.close()


def texts(widget: QWidget) -> list[str]:
    return [label.text() for label in widget.findChildren(QLabel) if label.isVisibleTo(widget)]


def cure_button(box) -> QPushButton:
    return next(b for b in box.notes.findChildren(QPushButton) if b.isVisibleTo(box.notes))


def test_the_first_start_needs_no_reading(form: Form) -> None:
    assert form.launch.draft.model is not None
    assert form.launch.draft.model.source.value == "starter"
    assert form.panel.launch_button.isEnabled()
    assert form.panel.launch_button.text() == "Launch"


def test_v_follows_k_until_it_gets_a_type_of_its_own(form: Form) -> None:
    form.panel.kv_k.chosen.emit("q8_0")
    assert (form.launch.settings.kv_k, form.launch.settings.kv_v) == ("q8_0", "q8_0")
    assert form.panel.kv_v.currentText() == "same as K"
    form.panel.kv_v.chosen.emit("q4_0")
    form.panel.kv_k.chosen.emit("f16")
    assert (form.launch.settings.kv_k, form.launch.settings.kv_v) == ("f16", "q4_0")
    form.panel.kv_v.chosen.emit("")
    assert form.launch.settings.kv_v == "f16"


def test_quantised_v_without_flash_attention_is_explained_and_cured_by_one_press(qtbot, form: Form) -> None:
    form.panel.kv_k.chosen.emit("f16")
    form.panel.kv_v.chosen.emit("q4_0")
    form.panel.flash.chosen.emit("off")
    assert not form.panel.launch_button.isEnabled()
    assert not form.launch.launch()
    button = cure_button(form.panel.boxes["flash_attention"])
    assert button.text() == "Set flash attention to auto"
    button.click()
    assert form.launch.settings.flash_attention is FlashAttention.AUTO
    assert form.panel.launch_button.isEnabled()
    form.panel.kv_k.chosen.emit("q4_0")
    form.panel.kv_v.chosen.emit("f16")
    form.panel.flash.chosen.emit("off")
    assert form.panel.launch_button.isEnabled(), "a quantised K alone needs no flash attention"


def test_a_type_this_engine_lacks_is_shown_greyed_with_the_reason_and_replaced_only_when_asked(form: Form) -> None:
    form.launch.edit(kv_k="Q8_0", kv_v="f16")
    row = form.panel.kv_k.currentIndex()
    assert form.panel.kv_k.itemText(row) == "Q8_0"
    assert not form.panel.kv_k.model().item(row).isEnabled()
    assert form.launch.settings.kv_k == "Q8_0"
    assert cure_button(form.panel.boxes["kv_k"]).text() == "Use q8_0"
    cure_button(form.panel.boxes["kv_k"]).click()
    assert form.launch.settings.kv_k == "q8_0"


def test_context_is_told_per_conversation_and_in_total(form: Form) -> None:
    form.panel.context.number.setValue(2048)
    form.panel.slots.setValue(2)
    assert form.panel.context.totals.text() == "2,048 per conversation · 4,096 in total"
    assert "--ctx-size 4096 --parallel 2" in form.launch.command_text()
    before = form.budget.budget.total_bytes
    form.panel.slots.setValue(4)
    assert form.budget.budget.total_bytes > before


def test_the_slider_is_logarithmic_and_ends_at_the_trained_context(form: Form) -> None:
    form.panel.context.slider.setValue(form.panel.context.slider.maximum())
    assert form.launch.settings.context_tokens == 8192
    form.panel.context.slider.setValue(form.panel.context.slider.maximum() - 8)
    assert form.launch.settings.context_tokens == 4096
    assert form.panel.context.number.text() == "4,096"


def test_the_form_says_relaunch_needed_until_the_engine_really_runs_its_values(qtbot, form: Form) -> None:
    form.panel.launch_button.click()
    qtbot.waitUntil(lambda: form.launch.status.phase is EnginePhase.READY, timeout=60_000)
    assert form.panel.launch_button.text() == "Relaunch"
    assert not form.panel.relaunch_note.isVisible()
    form.panel.context.number.setValue(1024)
    assert form.panel.relaunch_note.text() == "Relaunch needed: Context 512 → 1,024"
    first_pid = form.launch.status.pid
    form.panel.launch_button.click()
    qtbot.waitUntil(
        lambda: form.launch.status.phase is EnginePhase.READY and form.launch.status.pid != first_pid,
        timeout=60_000,
    )
    assert form.launch.status.plan.settings.context_tokens == 1024
    assert not form.panel.relaunch_note.isVisible()
    qtbot.waitUntil(lambda: bool(form.asked_got.rows), timeout=60_000)
    got = {row.label: (row.asked, row.got, row.agrees) for row in form.asked_got.rows}
    assert got["Context / slot"] == ("1,024", "1,024", True)
    form.panel.stop_button.click()
    qtbot.waitUntil(lambda: not form.launch.status.is_active, timeout=60_000)
    assert form.panel.launch_button.text() == "Launch"


def test_each_model_keeps_its_own_settings_and_the_last_launch_comes_back(qtbot, form: Form) -> None:
    starter = form.launch.draft.model.id
    other = next(e.id for e in form.library.entries if e.is_servable and e.id != starter)
    form.panel.context.number.setValue(1024)
    form.launch.choose_model(other)
    form.panel.context.number.setValue(256)
    form.launch.choose_model(starter)
    assert form.launch.settings.context_tokens == 1024
    form.launch.choose_model(other)
    assert form.launch.settings.context_tokens == 256
    qtbot.waitUntil(lambda: form.launch.can_launch, timeout=60_000)
    assert form.launch.launch()
    assert form.settings.settings.last_model == other
    assert form.profiles.profiles["last launch"].context_tokens == 256
    form.launch.stop()
    qtbot.waitUntil(lambda: not form.launch.status.is_active, timeout=60_000)


def test_a_taken_port_names_its_owner_and_offers_a_free_one(qtbot, form: Form) -> None:
    with socket.socket() as squatter:
        squatter.bind(("127.0.0.1", 0))
        squatter.listen(1)
        taken = squatter.getsockname()[1]
        form.launch.edit(port=taken)
        qtbot.waitUntil(lambda: form.launch.port_problem is not None, timeout=60_000)
        box = form.panel.advanced.boxes["port"]
        assert any(f"Port {taken} is used by" in text for text in texts(box.notes))
        assert not form.panel.launch_button.isEnabled()
        assert form.panel.advanced.toggle.isChecked()
        cure_button(box).click()
        assert form.launch.settings.port != taken
        qtbot.waitUntil(lambda: form.launch.can_launch, timeout=60_000)
        assert not form.panel.advanced.toggle.isChecked(), "what opened for a problem closes when it is gone"


def test_launch_opens_by_itself_when_a_taken_port_becomes_free(qtbot, form: Form) -> None:
    with socket.socket() as squatter:
        squatter.bind(("127.0.0.1", 0))
        squatter.listen(1)
        form.launch.edit(port=squatter.getsockname()[1])
        qtbot.waitUntil(lambda: not form.panel.launch_button.isEnabled(), timeout=60_000)
    qtbot.waitUntil(form.panel.launch_button.isEnabled, timeout=60_000)
    assert form.launch.port_problem is None


def test_the_picker_searches_greys_what_cannot_be_served_and_says_why(qtbot, form: Form) -> None:
    qtbot.keyClick(form.panel.model, Qt.Key.Key_C)
    popup = form.panel.model.popup
    assert popup.isVisible()
    assert popup.search.text().lower() == "c"
    popup.search.setText("cut")
    assert popup.table.rowCount() == 1
    assert "incomplete" in popup.reason.text()
    before = form.launch.draft.model
    qtbot.keyClick(popup.search, Qt.Key.Key_Return)
    assert form.launch.draft.model == before
    popup.search.setText("bold")
    qtbot.keyClick(popup.search, Qt.Key.Key_Return)
    assert not popup.isVisible()
    assert form.launch.draft.model.path.name.startswith("<b>bold")
    assert "<b>bold" in form.panel.model.currentText()


def test_every_control_is_reached_by_the_keyboard_and_has_a_name(form: Form) -> None:
    form.panel.advanced.toggle.click()
    wanted = {
        form.panel.model,
        form.panel.kv_k,
        form.panel.kv_v,
        form.panel.context.slider,
        form.panel.context.number,
        form.panel.slots,
        form.panel.flash,
        form.panel.speculation,
        form.panel.advanced.toggle,
        form.panel.advanced.port,
        form.panel.advanced.extra,
        form.panel.launch_button,
        form.panel.copy_button,
    }
    reached, widget = set(), form.panel.model
    for _ in range(200):
        reached.add(widget)
        widget = widget.nextInFocusChain()
    assert wanted <= reached
    for control in wanted:
        assert control.focusPolicy() & Qt.FocusPolicy.TabFocus
        assert control.accessibleName() or control.text(), control


def test_profiles_keep_their_own_values_and_travel_as_files(form: Form, tmp_path: Path) -> None:
    profiles, launch = form.profiles, form.launch
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


def test_the_network_needs_a_key_and_takes_the_one_made_in_settings(form: Form) -> None:
    form.panel.advanced.switches["lan"].click()
    assert form.launch.settings.host == "0.0.0.0"
    assert not form.launch.can_launch
    form.settings.generate_key()
    assert not [p for p in form.launch.problems if p.code == "lan-without-key"]
    assert form.settings.key not in form.launch.command_text()


def test_an_unusable_key_blocks_the_launch_instead_of_leaving_the_door_open(
    form: Form, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVARN_API_KEY", "two words")
    form.settings.changed.emit()
    assert not form.launch.can_launch
    assert any("KVARN_API_KEY" in text for text in texts(form.panel))
