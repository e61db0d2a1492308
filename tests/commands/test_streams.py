"""Where a command's words go: closed, full or old-fashioned streams cost words, never a traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import kvarn


def run(*arguments: str, shell: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
    """The program itself; `shell` is appended to the command line."""
    app_dir = str(Path(kvarn.__file__).parents[1])
    command = f'"{sys.executable}" -m kvarn "$@" {shell}'
    environ = os.environ | {"PYTHONPATH": app_dir} | environ
    argv = ["sh", "-c", command, "sh", *arguments]
    return subprocess.run(argv, env=environ, text=True, capture_output=True, timeout=60, check=False)


@pytest.mark.parametrize(("arguments", "shell"), [(("models",), ">&- 2>&-"), (("models", "--json"), "<&- >&-")])
def test_a_closed_stream_takes_everything(arguments, shell) -> None:
    done = run(*arguments, shell=shell)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", [("models",), ("models", "--json")])
def test_a_full_disk_is_a_sentence(arguments) -> None:
    done = run(*arguments, shell=">/dev/full")
    assert done.returncode == 1
    assert "No space left" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_an_old_encoding_gets_whole_json_and_whole_lines(tmp_path) -> None:
    for name in ("模型.gguf", "🦙.gguf"):
        (tmp_path / name).write_bytes(b"GGUF")
    lines = run("models", "--add", str(tmp_path), PYTHONIOENCODING="ascii")
    assert lines.returncode == 0
    assert "\\u6a21" in lines.stdout
    document = run("models", "--json", PYTHONIOENCODING="latin-1")
    assert {model["id"] for model in json.loads(document.stdout)["models"]} >= {"模型", "🦙"}


@pytest.mark.parametrize("arguments", [("plan", "~nosuchuser/x.gguf"), ("models", "--add", "~nosuchuser/x")])
def test_a_path_that_names_nobodys_home_is_a_sentence(arguments) -> None:
    done = run(*arguments)
    assert done.returncode == 1
    assert done.stderr.startswith("kvarn: ")
    assert "Traceback" not in done.stderr


def test_ctrl_c_while_the_program_is_still_loading_is_no_traceback() -> None:
    code = "import sys; sys.argv = ['kvarn', 'doctor']; sys.modules['kvarn.cli'] = Interrupted()\n"
    code = (
        "class Interrupted:\n def run(self): raise KeyboardInterrupt\n" + code + "import kvarn.__main__ as m; m.main()"
    )
    environ = os.environ | {"PYTHONPATH": str(Path(kvarn.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", code], env=environ, text=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (130, "")
