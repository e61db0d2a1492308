"""`kvarn models` as a user runs it: a real process, its output, its exit code."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

import kvarn
from gguf_maker import GgufMaker, write_shards
from kvarn.services.paths import config_dir
from kvarn.services.settings_store import SettingsStore

SOURCE = str(Path(kvarn.__file__).parent.parent)


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kvarn", "models", *arguments]
    env = os.environ | {"PYTHONPATH": SOURCE, "PYTHONUTF8": "1"} | environment
    return subprocess.run(command, env=env, capture_output=True, text=True, errors="surrogateescape", timeout=60)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    models = tmp_path / "models"
    GgufMaker.llama(name="Tiny").with_weights().write(models / "tiny-F32.gguf")
    GgufMaker.llama().with_weights().write(models / os.fsdecode(b"odd\n-\xff.gguf"))
    (models / "page.gguf").write_text("<html>")
    write_shards(models, "big", 3)[1].unlink()
    os.mkfifo(models / "pipe.gguf")
    return models


def test_json_names_every_model_and_every_reason(folder: Path, starter_model: Path) -> None:
    done = run("--add", str(folder), "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    models = {model["id"]: model for model in document["models"]}
    assert models["starter"]["path"] == str(starter_model)
    assert models["starter"]["servable"] is True
    tiny = models["tiny-F32"]
    assert (tiny["architecture"], tiny["name"], tiny["context_train"], tiny["vocab_size"]) == (
        "llama",
        "Tiny",
        256,
        261,
    )
    assert (tiny["source"], tiny["problem"], tiny["mmproj"]) == ("folder", None, None)
    assert tiny["file_bytes"] == (folder / "tiny-F32.gguf").stat().st_size
    assert models["page"]["servable"] is False
    assert models["page"]["problem"]["code"] == "web-page"
    assert models["page"]["architecture"] is None
    assert models["big"]["problem"]["message"] == "2 of 3 parts present; missing big-00002-of-00003.gguf."
    assert len(models["big"]["paths"]) == 2
    assert models["odd␊-\\xff"]["uri"].endswith("/odd%0A-%FF.gguf")
    assert [report["files"] for report in document["folders"]] == [1, 6]


def test_an_added_folder_is_remembered_once(folder: Path) -> None:
    assert run("--add", str(folder)).returncode == 0
    assert "tiny-F32" in run("--add", str(folder)).stdout
    assert SettingsStore().load().settings.model_folders == (str(folder),)


def test_home_and_folder_may_have_any_name(tmp_path: Path) -> None:
    odd = tmp_path / os.fsdecode("qü 模型 ".encode() + b"\xff")
    GgufMaker.llama().with_weights().write(odd / "m.gguf")
    done = run("--add", str(odd), "--json", HOME=str(odd), TMPDIR=str(odd), KVARN_HOME=str(odd / "home"))
    assert [model["id"] for model in json.loads(done.stdout)["models"]] == ["starter", "m"]
    assert SettingsStore(odd / "home" / "config" / "settings.toml").load().settings.model_folders == (str(odd),)


def test_piped_output_is_one_line_a_model(folder: Path) -> None:
    lines = run("--add", str(folder)).stdout.splitlines()
    assert lines[0].split("\t") == ["MODEL", "SIZE", "ARCHITECTURE", "CONTEXT", "SOURCE", "REMARK"]
    assert len(lines) == 1 + 6
    assert next(line for line in lines if line.startswith("starter\t")).count("starter") == 1
    assert all(len(line.split("\t")) >= 5 for line in lines)
    assert any(line.startswith("page\t") and "web page" in line for line in lines)
    assert "\x1b" not in "".join(lines)


def test_an_old_terminal_encoding_does_not_end_the_list(folder: Path) -> None:
    done = run("--add", str(folder), PYTHONUTF8="0", PYTHONIOENCODING="ascii", LC_ALL="C")
    assert done.returncode == 0
    assert "odd\\u240a-\\xff" in done.stdout


def test_a_terminal_gets_a_table(folder: Path) -> None:
    run("--add", str(folder))
    parent, child = pty.openpty()
    env = os.environ | {"PYTHONPATH": SOURCE, "COLUMNS": "160", "TERM": "xterm", "PYTHONUTF8": "1"}
    with subprocess.Popen([sys.executable, "-m", "kvarn", "models"], env=env, stdout=child) as process:
        os.close(child)
        shown = b""
        while chunk := _read(parent):
            shown += chunk
        assert process.wait(30) == 0
    os.close(parent)
    assert b"ARCHITECTURE" in shown
    assert b"SmolLM2-135M-Instruct" in shown
    assert b"This is a web page" in shown


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux's end of a terminal
        return b""


def test_a_folder_that_does_not_exist_is_refused_with_a_sentence(tmp_path: Path) -> None:
    done = run("--add", str(tmp_path / "absent"))
    assert done.returncode == 1
    assert done.stderr == f"kvarn: {tmp_path / 'absent'} is not a folder.\n"
    assert SettingsStore().load().settings.model_folders == ()


def test_bad_usage_is_exit_code_two() -> None:
    assert run("--no-such-option").returncode == 2


def test_a_folder_that_has_gone_and_damaged_settings_are_told_on_stderr(tmp_path: Path, folder: Path) -> None:
    run("--add", str(folder))
    folder.rename(tmp_path / "moved")
    done = run("--json")
    assert done.returncode == 0
    assert "cannot be looked into: No such file" in done.stderr
    assert json.loads(done.stdout)["folders"][1]["problem"]
    (config_dir() / "settings.toml").write_text("half =")
    assert "set aside as" in run("--json").stderr
