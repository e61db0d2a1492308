from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kvarn import cli
from kvarn.commands.output import list_text
from kvarn.domain.settings import Settings
from kvarn.services.launch.port_owner import next_free_port
from kvarn.services.settings_store import SettingsStore
from patience import HANG_S


@pytest.fixture
def doctor(fake_engine_dir: Path, monkeypatch):
    monkeypatch.setenv("KVARN_ENGINE_DIR", str(fake_engine_dir))
    SettingsStore().save(Settings(port=next_free_port("127.0.0.1", 22_000 + os.getpid() % 10_000)))
    return lambda *words: CliRunner().invoke(cli.app, ["doctor", *words])


def test_the_document_names_engine_types_gpu_paths_and_port(doctor, fake_engine_dir: Path, kvarn_home: Path) -> None:
    result = doctor("--json")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert found["engine"]["version"] == "9999 (stand-in)"
    assert found["engine"]["bin_dir"] == str(fake_engine_dir)
    assert {"base", "patches", "backends"} <= found["engine"].keys()
    q8_0 = next(kv for kv in found["engine"]["kv_types"] if kv["name"] == "q8_0")
    assert (q8_0["block_values"], q8_0["block_bytes"], q8_0["bits_per_value"]) == (32, 34, 8.5)
    assert found["gpu"]["present"] is False or found["gpu"]["cards"]
    assert found["gpu"]["present"] or found["gpu"]["reason"]
    assert found["paths"]["state"] == str(kvarn_home / "state")
    assert found["problems"] == [] or found["problems"][0]["code"] == "gpu-unused"


def test_people_read_the_same_in_lines(doctor) -> None:
    text = doctor().stdout
    for word in ("engine", "K/V types", "q8_0 (8.5)", "GPU", "port", "state"):
        assert word in text


def test_a_long_list_goes_on_below_and_breaks_no_name() -> None:
    names = [f"server/patch-number-{number} (4.125)" for number in range(30)]
    lines = list_text(names, 16).splitlines()
    assert len(lines) > 5
    assert all(len(line.strip()) <= 80 for line in lines)
    assert ", ".join(names) == " ".join(line.strip() for line in lines)


def test_a_taken_port_is_a_problem_with_owner_and_cure(doctor) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        SettingsStore().save(Settings(port=port))
        result = doctor("--json")
    assert result.exit_code == 1
    assert f"Port {port} is used by" in result.stderr
    found = json.loads(result.stdout)
    assert found["port"]["usable"] is False
    problem = next(p for p in found["problems"] if p["code"] == "port-taken")
    assert str(port) in problem["message"]
    assert "is free" in problem["remedy"]


def test_a_free_port_is_called_free(doctor) -> None:
    assert f"{SettingsStore().load().settings.port} is free\n" in doctor().stdout


def test_an_engine_of_ours_on_the_port_is_named_with_who_launched_it(doctor, start_kvarn, free_port: int) -> None:
    SettingsStore().save(Settings(port=free_port))
    serving = start_kvarn("serve", "starter", "--json")
    ready = next(event for line in serving.stdout if (event := json.loads(line))["event"] == "ready")
    ours = f"a Kvarn engine (process {ready['pid']}), launched by kvarn serve (process {serving.pid})"
    result = doctor()
    assert result.exit_code == 0
    assert f"{free_port} is in use by {ours}\n" in result.stdout
    second = start_kvarn("serve", "starter")
    told = second.stderr.read()
    assert second.wait(HANG_S) == 1
    assert f"Port {free_port} is used by {ours}." in told


def test_without_an_engine_the_rest_is_still_told_and_the_exit_code_is_one(doctor, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("KVARN_ENGINE_DIR", str(tmp_path))
    result = doctor("--json")
    assert result.exit_code == 1
    assert str(tmp_path) in result.stderr
    found = json.loads(result.stdout)
    assert found["engine"] is None
    assert found["problems"][0]["code"] == "no-engine"
    assert found["paths"]


def test_without_an_engine_and_with_a_taken_port_both_are_named(doctor, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("KVARN_ENGINE_DIR", str(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        SettingsStore().save(Settings(port=port))
        result = doctor()
    assert result.exit_code == 1
    assert str(tmp_path) in result.stderr
    assert f"Port {port} is used by" in result.stderr


def test_an_engine_that_does_not_answer_is_named_broken_with_its_words(doctor, tmp_path: Path, monkeypatch) -> None:
    server = tmp_path / "llama-server"
    server.write_text("#!/bin/sh\necho libfoo.so is missing >&2\nexit 127\n")
    server.chmod(0o755)
    monkeypatch.setenv("KVARN_ENGINE_DIR", str(tmp_path))
    problem = json.loads(doctor("--json").stdout)["problems"][0]
    assert problem["code"] == "engine-broken"
    assert "libfoo.so is missing" in problem["message"]
