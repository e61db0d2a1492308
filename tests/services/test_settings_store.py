"""Damaged settings never stop the program, and nothing a person wrote is lost silently."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import kvarn
from kvarn.domain.errors import SettingsError
from kvarn.domain.settings import Settings, ThemeChoice
from kvarn.services.settings_store import SettingsStore

GOOD = 'theme = "dark"\nport = 6000\nmodel_folders = ["/models"]\n'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "settings.toml"


def test_a_first_start_has_defaults_and_no_notice(path: Path) -> None:
    loaded = SettingsStore(path).load()
    assert loaded.settings == Settings()
    assert loaded.notices == ()
    assert not path.exists()


def test_the_default_place_is_the_config_folder(kvarn_home: Path) -> None:
    SettingsStore().save(Settings(port=6000))
    assert (kvarn_home / "config" / "settings.toml").is_file()
    assert SettingsStore().load().settings.port == 6000


def test_what_is_saved_is_what_is_loaded(path: Path) -> None:
    settings = Settings(
        theme=ThemeChoice.DARK, model_folders=("/a b", "/模型"), port=1, lan=True, gpu_poll_s=2, last_model="x␊y"
    )
    SettingsStore(path).save(settings)
    loaded = SettingsStore(path).load()
    assert loaded.settings == settings
    assert loaded.notices == ()


def test_a_folder_whose_name_is_not_utf8_survives(path: Path) -> None:
    folder = os.fsdecode(b"/models/not-utf8-\xff\xfe\n")
    SettingsStore(path).save(Settings(model_folders=(folder, "/plain"), engine_dir=folder))
    path.read_bytes().decode()
    loaded = SettingsStore(path).load().settings
    assert loaded.model_folders == (folder, "/plain")
    assert loaded.engine_dir == folder


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * 512,
        GOOD.encode() + b"\0" * 512,
        GOOD.encode()[:-9],
        b"[]",
        b'{"port": 6000}',
        b"port = 6000\nport = 7000\n",
        b"\xff\xfe\x00",
        b"a = " + b"[" * 5000,
        b"# " + b"x" * (2 << 20),
    ],
    ids=["empty", "nul", "nul-padded", "half", "list", "json", "twice", "not-utf8", "deep", "huge"],
)
def test_a_damaged_file_is_set_aside_by_name_and_never_overwritten(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    kept = path.with_name("settings.toml.damaged-1")
    loaded = SettingsStore(path).load()
    assert loaded.settings == Settings()
    assert len(loaded.notices) == 1
    assert str(kept) in loaded.notices[0]
    assert kept.read_bytes() == content
    assert SettingsStore(path).load().notices == ()
    path.write_bytes(content)
    SettingsStore(path).save(Settings(port=6000))
    assert path.with_name("settings.toml.damaged-2").read_bytes() == content
    assert SettingsStore(path).load().settings.port == 6000


def test_a_byte_order_mark_does_no_harm(path: Path) -> None:
    path.write_bytes(b"\xef\xbb\xbf" + GOOD.encode())
    loaded = SettingsStore(path).load()
    assert loaded.settings.port == 6000
    assert loaded.notices == ()


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("port = 99999", "port"),
        ("port = 0", "port"),
        ("port = -1", "port"),
        ('port = "6000"', "port"),
        ("port = true", "port"),
        ('theme = "pink"', "theme"),
        ("theme = {nested = [1]}", "theme"),
        ('model_folders = "/models"', "model_folders"),
        ("model_folders = [1]", "model_folders"),
        ('model_folders = ["a\\u0000b"]', "model_folders"),
        ('engine_dir = "file:///a%00b"', "engine_dir"),
        ("gpu_poll_s = nan", "gpu_poll_s"),
        ("gpu_poll_s = 0", "gpu_poll_s"),
        ("chart_window_s = -5", "chart_window_s"),
        ("lan = 1", "lan"),
    ],
)
def test_a_bad_value_falls_back_alone_and_stays_in_the_file(path: Path, line: str, name: str) -> None:
    path.write_text(f'last_model = "kept"\n{line}\n')
    store = SettingsStore(path)
    loaded = store.load()
    assert loaded.settings == Settings(last_model="kept")
    assert len(loaded.notices) == 1
    assert f"setting {name} = " in loaded.notices[0]
    store.save(Settings(last_model="changed"))
    assert line in path.read_text()


def test_comments_order_and_unknown_keys_stay(path: Path) -> None:
    text = '# mine\nport = 6000 # ours\nshade = "x"\n\n[from_the_future]\na = 1\n'
    path.write_text(text)
    store = SettingsStore(path)
    assert store.load().notices == ()
    store.save(Settings(port=6001, theme=ThemeChoice.LIGHT))
    written = path.read_text()
    assert "# mine\nport = 6001 # ours\n" in written
    assert 'shade = "x"' in written
    assert "[from_the_future]\na = 1\n" in written
    assert store.load().settings == Settings(port=6001, theme=ThemeChoice.LIGHT)


def test_saving_what_is_stored_already_changes_nothing(path: Path) -> None:
    text = '# mine\nport=6000\nmodel_folders = [ "/a", # first\n]\n'
    path.write_text(text)
    store = SettingsStore(path)
    store.save(store.load().settings)
    assert path.read_text() == text


@pytest.mark.parametrize("port", [0, -1, 65536, 99999])
def test_a_port_out_of_range_is_not_saved(path: Path, port: int) -> None:
    with pytest.raises(SettingsError, match="port"):
        SettingsStore(path).save(Settings(port=port))
    assert not path.exists()


def test_a_folder_that_cannot_be_written_is_a_sentence_and_changes_nothing(tmp_path: Path) -> None:
    blocked = tmp_path / "config"
    blocked.write_text("a file where the folder should be")
    with pytest.raises(SettingsError, match=r"cannot be saved to .*settings\.toml: "):
        SettingsStore(blocked / "settings.toml").save(Settings(port=6000))
    assert SettingsStore(blocked / "settings.toml").load().settings == Settings()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_a_sentence(path: Path) -> None:
    path.write_text("port =")
    path.parent.chmod(0o500)
    try:
        assert "could not be renamed" in SettingsStore(path).load().notices[0]
        with pytest.raises(SettingsError, match="Permission denied"):
            SettingsStore(path).save(Settings(port=6000))
        assert path.read_text() == "port ="
    finally:
        path.parent.chmod(0o700)


def test_a_folder_in_the_files_place_is_a_notice(path: Path) -> None:
    path.mkdir()
    assert "cannot be read" in SettingsStore(path).load().notices[0]
    with pytest.raises(SettingsError):
        SettingsStore(path).save(Settings())


def test_a_linked_settings_file_stays_a_link(path: Path, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles" / "kvarn.toml"
    real.parent.mkdir()
    real.write_text(GOOD)
    path.symlink_to(real)
    SettingsStore(path).save(Settings(port=6001))
    assert path.is_symlink()
    assert "6001" in real.read_text()


SAVER = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from kvarn.domain.settings import Settings
from kvarn.services.settings_store import SettingsStore
store = SettingsStore(Path(sys.argv[2]))
print("ready", flush=True)
for number in range(200):
    store.save(Settings(port=6000 + number % 2, last_model="x" * 5000))
"""


@pytest.mark.parametrize("delay_s", [0.0, 0.03, 0.1, 0.2])
def test_killed_in_the_middle_of_200_saves_the_file_is_whole(path: Path, delay_s: float) -> None:
    SettingsStore(path).save(Settings(port=6000, last_model="x" * 5000))
    source = str(Path(kvarn.__file__).parent.parent)
    with subprocess.Popen([sys.executable, "-c", SAVER, source, str(path)], stdout=subprocess.PIPE) as child:
        child.stdout.readline()
        time.sleep(delay_s)
        child.send_signal(signal.SIGKILL)
    loaded = SettingsStore(path).load()
    assert loaded.notices == ()
    assert loaded.settings.port in {6000, 6001}
    assert loaded.settings.last_model == "x" * 5000


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
def test_a_pipe_in_the_files_place_is_not_waited_for(path: Path) -> None:
    os.mkfifo(path)
    store = SettingsStore(path)
    assert "not an ordinary file" in store.load().notices[0]
    with pytest.raises(SettingsError, match="not an ordinary file"):
        store.save(Settings(port=6000))
