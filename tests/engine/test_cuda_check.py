"""`make cuda-check` without nvcc's cost: what it compiles, when it compiles again, and how it names what fails."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

NVCC = """#!{python}
# Reads the source and its header as a compiler does; sm_75 refuses what says `bad`.
import pathlib, sys
words = sys.argv[1:]
source = pathlib.Path(words[words.index("-c") + 1])
header = source.parent / "part.cuh"
with open({calls!r}, "a") as calls:
    calls.write(" ".join(word for word in words if word.startswith("arch=")) + "\\n")
if "bad" in header.read_text() and any("compute_75" in word for word in words):
    sys.exit("part.cuh(1): error: bad")
pathlib.Path(words[words.index("-MF") + 1]).write_text(f"unit.o : {{source}} \\\\\\n  {{header}}\\n")
"""


@pytest.fixture
def cuda_check(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("cuda_check", ROOT / "packaging" / "cuda_check.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "cuda_check", module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(module, "units", lambda: ["one.cu"])
    return module


@pytest.fixture
def calls(tmp_path) -> Path:
    return tmp_path / "calls"


@pytest.fixture
def compiler(cuda_check, tmp_path, calls):
    """A stand-in nvcc and a tree of one source with one header."""
    nvcc = tmp_path / "nvcc"
    nvcc.write_text(NVCC.format(python=sys.executable, calls=str(calls)))
    nvcc.chmod(0o755)
    sources = tmp_path / "ggml" / "src" / "ggml-cuda"
    sources.mkdir(parents=True)
    (sources / "one.cu").write_text('#include "part.cuh"\n')
    (sources / "part.cuh").write_text("good\n")
    return cuda_check.Compiler(nvcc, tmp_path / "ggml", ["-O3"], "release 1", 1)


def header(compiler) -> Path:
    return compiler.ggml / "src" / "ggml-cuda" / "part.cuh"


def test_our_own_files_and_those_we_touch_are_compiled():
    command = [sys.executable, "-c", "import cuda_check; print(*cuda_check.units())"]
    done = subprocess.run(command, cwd=ROOT / "packaging", capture_output=True, text=True, check=True)
    names = done.stdout.split()
    ours = {"kvarn-kv-ops.cu", "kvarn-fattn-vec-q8_0-planar3_0.cu", "kvarn-fattn-vec-tcq4_0-tcq3_0.cu"}
    assert ours | {"set-rows.cu", "fattn.cu", "ggml-cuda.cu"} <= set(names)
    assert len(names) == len(set(names))


def test_each_attention_kernel_that_is_offered_is_instantiated_and_no_other():
    folder = ROOT / "engine" / "overlay" / "ggml" / "src" / "ggml-cuda"
    pair = re.compile(r"\(\s*(64|128|256),\s*(GGML_TYPE_\w+),\s*(GGML_TYPE_\w+)\)")
    offered = pair.findall((folder / "kvarn-fattn-cases.cuh").read_text())
    compiled = [case for unit in folder.glob("kvarn-fattn-vec-*.cu") for case in pair.findall(unit.read_text())]
    assert sorted(offered) == sorted(compiled)
    assert len(offered) == len(set(offered)) >= 30


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in compiler is a script with a shebang")
def test_what_compiled_is_compiled_again_only_when_it_changed(cuda_check, compiler, calls, capsys):
    assert cuda_check.compile_all(compiler, ["75", "86"])
    assert cuda_check.compile_all(compiler, ["75", "86"])
    assert calls.read_text() == "arch=compute_75,code=sm_75 arch=compute_86,code=sm_86\n"
    assert "unchanged since it compiled" in capsys.readouterr().out
    header(compiler).write_text("better\n")
    assert cuda_check.compile_all(compiler, ["86"])
    assert len(calls.read_text().splitlines()) == 2


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in compiler is a script with a shebang")
def test_the_architecture_that_fails_is_named_and_is_not_kept(cuda_check, compiler, calls, capsys):
    header(compiler).write_text("bad\n")
    assert not cuda_check.compile_all(compiler, ["75", "86"])
    said = capsys.readouterr().out
    assert "part.cuh(1): error: bad" in said
    assert "one.cu: sm_75 fails" in said
    assert "sm_86 fails" not in said
    header(compiler).write_text("good\n")
    assert cuda_check.compile_all(compiler, ["75"])


def test_a_machine_without_nvcc_is_told_that_compiling_was_skipped(cuda_check, monkeypatch, capsys):
    monkeypatch.setattr(cuda_check.cuda, "find_nvcc", lambda: None)
    monkeypatch.setattr(cuda_check.subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 0))
    monkeypatch.setattr(sys, "argv", ["cuda_check.py"])
    assert cuda_check.main() == 0
    assert "compiling is SKIPPED: there is no nvcc" in capsys.readouterr().out
