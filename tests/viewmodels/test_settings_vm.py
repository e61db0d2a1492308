"""Settings while the window is open."""

from __future__ import annotations

from pathlib import Path

from kvarn.domain.settings import Settings, ThemeChoice
from kvarn.services.launch.stored_key import StoredKey
from kvarn.services.settings_store import SettingsStore
from kvarn.viewmodels.settings_vm import SettingsVm


def settings_vm(tmp_path: Path, **environ: str) -> SettingsVm:
    return SettingsVm(SettingsStore(tmp_path / "settings.toml"), StoredKey(tmp_path / "api-key"), environ)


def test_a_change_is_told_marked_and_found_again_after_a_restart(qtbot, tmp_path: Path) -> None:
    vm = settings_vm(tmp_path)
    with qtbot.waitSignal(vm.changed):
        vm.change(theme=ThemeChoice.DARK, port=6000)
    again = settings_vm(tmp_path)
    assert again.settings == Settings(theme=ThemeChoice.DARK, port=6000)
    assert not again.is_default("port")
    again.reset("port")
    assert again.is_default("port")


def test_a_change_that_cannot_be_stored_holds_for_the_session_and_says_why(tmp_path: Path) -> None:
    (tmp_path / "settings.toml").mkdir()
    vm = settings_vm(tmp_path)
    vm.change(port=6000)
    assert vm.settings.port == 6000
    assert "cannot be saved" in vm.problem


def test_the_environment_variable_that_wins_is_named(tmp_path: Path) -> None:
    vm = settings_vm(tmp_path, KVARN_ENGINE_DIR="/opt/engine")
    assert vm.overridden_by("engine_dir") == "KVARN_ENGINE_DIR"
    assert vm.overridden_by("port") == ""


def test_an_unusable_key_changes_nothing_and_says_why(tmp_path: Path) -> None:
    vm = settings_vm(tmp_path)
    vm.generate_key()
    kept = vm.key
    vm.set_key("two words")
    assert (vm.key, bool(vm.problem)) == (kept, True)
    vm.set_key("")
    assert (vm.key, vm.problem) == (None, "")


def test_a_folder_is_kept_once(tmp_path: Path) -> None:
    vm = settings_vm(tmp_path)
    vm.add_folder("/models")
    vm.add_folder("/models")
    assert vm.settings.model_folders == ("/models",)
    vm.remove_folder("/models")
    assert vm.settings.model_folders == ()
