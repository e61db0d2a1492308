"""The window's API key on disk."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest

from kvarn.domain.errors import SettingsError
from kvarn.services.launch.stored_key import StoredKey


def test_a_generated_key_is_found_again_in_a_file_only_its_owner_reads(tmp_path: Path) -> None:
    path = tmp_path / "api-key"
    key = StoredKey(path).generate()
    assert StoredKey(path).key() == key
    if sys.platform != "win32":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    StoredKey(path).store("")
    assert StoredKey(path).key() is None


def test_the_environment_beats_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = StoredKey(tmp_path / "api-key")
    keys.store("from-file")
    monkeypatch.setenv("KVARN_API_KEY", "from-environment")
    assert keys.key() == "from-environment"


@pytest.mark.parametrize("bad", ["two words", "# comment", "schlüssel", "a\nb"])
def test_a_key_no_header_can_carry_is_refused_and_the_old_one_stays(tmp_path: Path, bad: str) -> None:
    keys = StoredKey(tmp_path / "api-key")
    keys.store("good")
    with pytest.raises(SettingsError):
        keys.store(bad)
    assert keys.key() == "good"
