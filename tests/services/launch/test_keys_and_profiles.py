from __future__ import annotations

from pathlib import Path

import pytest

from kvarn.domain.errors import ProfileError, SettingsError
from kvarn.domain.launch.launch_plan import LaunchSettings
from kvarn.services.launch.api_key import KeyFile, find_key, new_key
from kvarn.services.launch.profile_store import ProfileStore


def test_without_file_and_variable_there_is_no_key() -> None:
    assert find_key(None) is None


def test_the_file_wins_over_the_variable_and_comments_are_skipped(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("KVARN_API_KEY", "from-the-variable")
    assert find_key(None) == "from-the-variable"
    file = tmp_path / "key"
    file.write_text("# ours\n\n  from-the-file  \nsecond\n")
    assert find_key(file) == "from-the-file"


@pytest.mark.parametrize("content", [b"", b"# only a comment\n", b"two words", "schlüssel".encode(), b"\xff\xfe"])
def test_a_key_no_header_can_carry_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "key"
    file.write_bytes(content)
    with pytest.raises(SettingsError):
        find_key(file)


def test_a_missing_key_file_is_refused_rather_than_serving_openly(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        find_key(tmp_path / "nothing")


def test_made_keys_differ_and_are_usable(tmp_path: Path) -> None:
    keys = {new_key() for _ in range(20)}
    assert len(keys) == 20
    for key in keys:
        file = KeyFile(key)
        assert find_key(file.path) == key
        assert file.path.stat().st_mode & 0o777 == 0o600
        file.remove()
        assert not file.path.exists()


def test_each_profile_keeps_its_own_settings(tmp_path: Path) -> None:
    small, large = LaunchSettings(context_tokens=512), LaunchSettings(context_tokens=4096, kv_k="q8_0")
    ProfileStore().save("a/model", "small", small)
    ProfileStore().save("a/model", "large", large)
    ProfileStore().save("b", "small", large)
    assert ProfileStore().load("a/model") == {"small": small, "large": large}
    ProfileStore().delete("a/model", "small")
    ProfileStore().delete("a/model", "never was")
    assert ProfileStore().load("a/model") == {"large": large}
    assert ProfileStore().load("b") == {"small": large}


@pytest.mark.parametrize("model_id", ["../../etc/passwd", "a" * 300, "with\nnewline", "bytes \udcff", "模型 🙂", ""])
def test_any_model_id_has_a_file_of_its_own_inside_the_folder(tmp_path: Path, model_id: str) -> None:
    store = ProfileStore(tmp_path / "profiles")
    store.save(model_id, "p", LaunchSettings())
    assert store.load(model_id) == {"p": LaunchSettings()}
    assert len(list((tmp_path / "profiles").iterdir())) == 1
    store.export_profile(model_id, "p")


def test_an_export_comes_back_the_same_and_carries_no_secret(tmp_path: Path) -> None:
    words = ("--seed", "7", "--api-key", "s3cret", "--api-key=s3cret", "--hf-token", "s3cret", "--top-k", "5")
    store = ProfileStore(tmp_path)
    store.save("m", "mine", LaunchSettings(slots=3, extra_args=words))
    assert "s3cret" not in next(tmp_path.iterdir()).read_text()
    content = store.export_profile("m", "mine")
    assert b"s3cret" not in content
    back = store.import_profile(content)
    assert (back.name, back.model_id, back.settings.slots) == ("mine", "m", 3)
    assert back.settings.extra_args == ("--seed", "7", "--top-k", "5")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00" * 50,
        b"[]",
        b'{"name": "x"}',
        b'{"name":"x","model_id":"m","settings":{"slots":"many"}}',
        b'{"name":"x","model_id":"m","settings":{},"kvarn_profile":99}',
        b'{"name":"two\\nlines","model_id":"m","settings":{}}',
        b'{"name":"x","model_id":"m","settings":{}}' + b" " * (1 << 20),
    ],
)
def test_a_file_that_is_no_profile_is_refused_in_words(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(ProfileError):
        ProfileStore(tmp_path).import_profile(content)


def test_a_profile_naming_a_type_this_engine_lacks_opens_unchanged(tmp_path: Path) -> None:
    profile = ProfileStore(tmp_path).import_profile(b'{"name":"x","model_id":"m","settings":{"kv_k":"Q8_0"},"new":1}')
    assert profile.settings.kv_k == "Q8_0"


def test_damaged_profiles_are_told_and_not_overwritten(tmp_path: Path) -> None:
    store = ProfileStore(tmp_path)
    store.save("m", "mine", LaunchSettings())
    path = next(tmp_path.iterdir())
    path.write_bytes(b'{"model_id": "m", "prof')
    with pytest.raises(ProfileError, match="left as they are"):
        store.save("m", "other", LaunchSettings())
    assert path.read_bytes() == b'{"model_id": "m", "prof'


def test_a_name_must_be_visible_text(tmp_path: Path) -> None:
    for name in ("", "  ", "x" * 81, "a\x00b"):
        with pytest.raises(ProfileError):
            ProfileStore(tmp_path).save("m", name, LaunchSettings())
    ProfileStore(tmp_path).save("m", "<b>größer</b>", LaunchSettings())
