"""The build's own rules: what names a source tree, who may build, what is pruned, when CUDA is built."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from kvarn_engine import bindings, cuda, locations, pin, series, source_tree

BACKEND = Path(pin.__file__).parents[1]


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "kvarn" / "engine"


def test_the_cache_honours_the_platforms_variable(cache):
    assert locations.build_log() == cache / "build.log"


def test_a_changed_patch_or_overlay_file_names_another_tree(monkeypatch, tmp_path):
    here, patches = pin.read_pin(), series.read_patches()
    same = source_tree.content_hash(here, patches)
    changed = series.Patch(patches[0].name, patches[0].header, patches[0].diff + " \n")
    overlay = tmp_path / "overlay"
    (overlay / "src").mkdir(parents=True)
    (overlay / "src" / "kvarn-other.cpp").write_text("int kvarn;\n")

    assert source_tree.content_hash(here, series.read_patches()) == same
    assert source_tree.content_hash(here, [changed, *patches[1:]]) != same
    assert source_tree.content_hash(here, patches[::-1]) != same
    monkeypatch.setattr(series, "OVERLAY", overlay)
    monkeypatch.setattr(series, "overlay_files", lambda: [Path("src/kvarn-other.cpp")])
    assert source_tree.content_hash(here, patches) != same


def test_a_header_edit_alone_compiles_nothing(monkeypatch):
    here, patches = pin.read_pin(), series.read_patches()
    reworded = [series.Patch(p.name, p.header + "X: y\n", p.diff) for p in patches]
    assert source_tree.content_hash(here, reworded) == source_tree.content_hash(here, patches)


def test_a_second_build_waits_for_the_first(cache):
    script = "from kvarn_engine import locations\nwith locations.only_one_build():\n    print('in', flush=True)\n"
    env = os.environ | {"PYTHONPATH": str(BACKEND)}
    with locations.only_one_build():
        second = subprocess.Popen([sys.executable, "-c", script], env=env, stdout=subprocess.PIPE, text=True)
        with pytest.raises(subprocess.TimeoutExpired):
            second.wait(1.0)
    assert second.communicate(timeout=60)[0] == "in\n"


def test_a_dead_build_leaves_no_lock(cache):
    script = "import os\nfrom kvarn_engine import locations\nwith locations.only_one_build():\n    os._exit(9)\n"
    env = os.environ | {"PYTHONPATH": str(BACKEND)}
    assert subprocess.run([sys.executable, "-c", script], env=env, check=False).returncode == 9
    with locations.only_one_build():
        pass


def test_the_last_few_trees_are_kept_and_older_ones_go(cache):
    trees = []
    for age in range(5):
        folder = cache / "trees" / f"tree{age}"
        folder.mkdir(parents=True)
        mark = folder / "ready"
        mark.touch()
        os.utime(mark, (time.time() - age * 60,) * 2)
        trees.append(folder)
    source_tree.prune(keep=source_tree.SourceTree(trees[4], trees[4] / "source"))
    assert [tree.exists() for tree in trees] == [True, True, False, False, True]


def test_a_download_that_cannot_work_says_what_to_do(cache, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    with pytest.raises(pin.EngineBuildError, match=r"into .*sdist and try again|has no pip"):
        pin.fetch_sdist(pin.read_pin())
    assert not list((cache / "sdist").glob("*.tar.gz"))


def test_a_spoilt_archive_in_the_cache_is_not_used(cache, monkeypatch):
    here = pin.read_pin()
    archive = cache / "sdist" / here.sdist
    archive.parent.mkdir(parents=True)
    archive.write_bytes(b"half a download")
    fetched = []
    monkeypatch.setattr(pin, "_pip_download", lambda *what: fetched.append(what))
    pin.fetch_sdist(here)
    assert fetched == [(here, archive)]


def test_the_makers_git_folders_stay_in_the_archive(tmp_path):
    here = pin.read_pin()
    archive = tmp_path / here.sdist
    with tarfile.open(archive, "w:gz") as tar:
        for name in (".git/HEAD", f"{here.llama_cpp}/.git", f"{here.llama_cpp}/README.md"):
            source = tmp_path / "file"
            source.write_text(name)
            tar.add(source, f"{here.folder}/{name}")
    pin.unpack(here, archive, tmp_path / "out")
    files = [path.name for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert files == ["README.md"]


@pytest.mark.parametrize(("asked", "enabled"), [("1", True), ("0", False)])
def test_cuda_is_what_was_asked_for(monkeypatch, asked, enabled):
    monkeypatch.setenv("KVARN_CUDA", asked)
    monkeypatch.setattr(cuda, "find_nvcc", lambda: None)
    choice = cuda.decide()
    assert choice.enabled is enabled
    assert choice.reason.startswith(f"asked for by KVARN_CUDA={asked}")
    assert ("no CUDA compiler" in choice.reason) is enabled


def test_cuda_needs_compiler_library_and_gpu_and_names_the_one_missing(monkeypatch):
    monkeypatch.delenv("KVARN_CUDA", raising=False)
    here: dict[str, bool] = {}
    monkeypatch.setattr(cuda, "find_nvcc", lambda: Path("nvcc") if here.get("nvcc") else None)
    monkeypatch.setattr(cuda, "has_cublas", lambda nvcc: here.get("cublas", False))
    monkeypatch.setattr(cuda, "find_gpu", lambda: "a GPU" if here.get("gpu") else None)
    for missing, part in (("nvcc", "nvcc"), ("cublas", "cuBLAS"), ("gpu", "no NVIDIA GPU")):
        choice = cuda.decide()
        assert not choice.enabled
        assert part in choice.reason
        here[missing] = True
    assert cuda.decide().enabled


def test_cmake_is_told_which_compiler_was_found_where_it_would_not_look(monkeypatch, tmp_path):
    nvcc = tmp_path / "toolkit" / "bin" / "nvcc"
    nvcc.parent.mkdir(parents=True)
    nvcc.touch()
    for name, value in (("CUDACXX", ""), ("CUDA_PATH", ""), ("CUDA_HOME", str(tmp_path / "toolkit")), ("PATH", "")):
        monkeypatch.setenv(name, value)
    without_gpu = {"CMAKE_CUDA_COMPILER": str(nvcc), "CMAKE_CUDA_ARCHITECTURES": "all-major"}
    assert cuda.cmake_settings(cuda.CudaChoice(True, "asked for")) == without_gpu
    assert cuda.cmake_settings(cuda.CudaChoice(False, "asked for")) == {}


def test_a_failed_build_repeats_its_last_lines_and_names_the_log(tmp_path):
    path = tmp_path / "build.log"
    script = (
        "import os, pathlib, sys\n"
        "from kvarn_engine import log\n"
        "with log.into_file(pathlib.Path(sys.argv[1])):\n"
        "    log.banner('compiling')\n"
        "    os.system('echo from a child')\n"
        "    raise SystemExit(1)\n"
    )
    env = os.environ | {"PYTHONPATH": str(BACKEND)}
    done = subprocess.run([sys.executable, "-c", script, path], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == f"kvarn: compiling\nfrom a child\n(the whole log: {path})\n"


def test_the_bindings_are_given_our_types_and_the_new_count(tmp_path):
    header, python = tmp_path / "ggml.h", tmp_path / "llama_cpp.py"
    header.write_text("GGML_TYPE_Q2_0 = 42,\n  GGML_TYPE_KVARN_NEW4_0 = 43, // ours\n  GGML_TYPE_COUNT   = 44,\n")
    python.write_text("#     GGML_TYPE_COUNT   = 43,\nGGML_TYPE_Q2_0 = 42\nGGML_TYPE_COUNT = 43\nREST = 1\n")
    bindings.name_our_types(python, header)
    assert python.read_text() == (
        "#     GGML_TYPE_COUNT   = 44,\nGGML_TYPE_Q2_0 = 42\n"
        "GGML_TYPE_KVARN_NEW4_0 = 43\nGGML_TYPE_NEW4_0 = GGML_TYPE_KVARN_NEW4_0\nGGML_TYPE_COUNT = 44\nREST = 1\n"
    )


def test_bindings_that_look_otherwise_stop_the_build(tmp_path):
    (tmp_path / "ggml.h").write_text("GGML_TYPE_COUNT = 43\n")
    (tmp_path / "llama_cpp.py").write_text("GGML_TYPE_COUNT = 43\n")
    with pytest.raises(pin.EngineBuildError, match=r"bindings\.py"):
        bindings.name_our_types(tmp_path / "llama_cpp.py", tmp_path / "ggml.h")
