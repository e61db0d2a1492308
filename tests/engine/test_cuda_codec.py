"""The CUDA code of the cache types, compiled by the plain C++ compiler and run in emulated warps."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kvarn_engine import locations, pin, series, source_tree

pytestmark = pytest.mark.engine

HOST = Path(__file__).parent / "cuda_host"
# The build cache of the person who runs the tests, taken before the fixtures move HOME.
CACHE = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")


def ggml_sources() -> Path:
    """`ggml/` of the prepared source tree the engine is built from."""
    here = pin.read_pin()
    with locations.only_one_build():
        tree = source_tree.prepare(here, pin.fetch_sdist(here), series.read_patches())
    return tree.source / here.llama_cpp / "ggml"


@pytest.mark.skipif(sys.platform == "win32", reason="the warps are made of ucontext fibers")
def test_device_code_has_the_bytes_and_values_of_the_reference(engine_dir, engine_build_info, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", CACHE)
    compiler = next(filter(None, map(shutil.which, (os.environ.get("CXX", "c++"), "g++", "clang++"))), None)
    if compiler is None:
        pytest.skip("no C++ compiler")
    ggml = ggml_sources()
    folders = [folder for folder in (engine_dir.parent / "lib", engine_dir) if list(folder.glob("libggml-base.*"))]
    source, program = HOST / "test_kv_codec.cpp", tmp_path / "test_kv_codec"
    command = [
        compiler,
        "-std=c++17",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Wno-unknown-pragmas",
        str(source),
        "-o",
        str(program),
    ]
    command += [f"-I{ggml / part}" for part in ("include", "src", "src/ggml-cuda", "../tests")]
    command += [f"-L{folders[0]}", "-lggml-base", f"-Wl,-rpath,{folders[0]}"]
    compiled = subprocess.run(command, capture_output=True, text=True, check=False)
    assert compiled.returncode == 0, compiled.stderr
    done = subprocess.run([str(program)], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(" compared") >= 8, done.stdout
