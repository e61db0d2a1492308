"""The real engine and real files behind the supervisor."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from kvarn.domain.errors import EngineNotFoundError
from kvarn.domain.launch.asked_got import asked_got
from kvarn.domain.launch.engine_build import EngineBuild
from kvarn.domain.launch.engine_status import EnginePhase
from kvarn.domain.launch.launch_plan import FlashAttention, LaunchPlan, LaunchSettings
from kvarn.domain.launch.restart_policy import NO_RESTARTS
from kvarn.domain.settings import Settings
from kvarn.services.launch.engine_locator import locate_engine
from kvarn.services.launch.props import fetch_props
from kvarn.services.launch.supervisor import Supervisor

pytestmark = pytest.mark.engine

ENDS = (EnginePhase.READY, EnginePhase.FAILED)


@pytest.fixture
def build() -> EngineBuild:
    try:
        return locate_engine(Settings())
    except EngineNotFoundError as error:
        pytest.skip(str(error))


@pytest.fixture
def engine(build: EngineBuild) -> Iterator[Supervisor]:
    supervisor = Supervisor(restart_policy=NO_RESTARTS)
    yield supervisor
    supervisor.close()


def plan_for(model: Path, port: int, **settings) -> LaunchPlan:
    chosen = LaunchSettings(**({"port": port, "context_tokens": 512, "extra_args": ("--no-warmup",)} | settings))
    return LaunchPlan(model_path=model, model_title="tiny", mmproj=None, alias="ours", settings=chosen)


def launched(engine: Supervisor, plan: LaunchPlan, build: EngineBuild, key: str | None = None):
    assert engine.launch(plan, build, key)
    return engine.wait_for(lambda status: status.phase in ENDS, 60)


def test_the_real_engine_becomes_ready_guarded_by_its_key_and_answers_as_asked(
    engine, build, starter_model: Path, free_port: int
) -> None:
    plan = plan_for(starter_model, free_port, slots=2, kv_k="q8_0", kv_v="q8_0")
    status = launched(engine, plan, build, "kv-secret")
    assert status.phase is EnginePhase.READY, status.report
    rows = {row.label: row for row in asked_got(plan, fetch_props(plan.base_url, "kv-secret"), None)}
    assert not [row for row in rows.values() if row.agrees is False]
    assert rows["Context / slot"].got == "512"
    if build.is_kvarn:
        assert (rows["K type"].got, rows["Flash attention"].got) == ("q8_0", "on")
    url = f"{status.endpoint}/models"
    assert httpx.get(url, trust_env=False).status_code == 401
    with_key = {"Authorization": "Bearer kv-secret"}
    assert httpx.get(url, headers=with_key, trust_env=False).status_code == 200
    foreign = httpx.get(url, headers=with_key | {"Origin": "https://evil.example"}, trust_env=False)
    assert "access-control-allow-origin" not in foreign.headers
    local = {"Origin": "http://localhost:3000"}
    allowed = httpx.options(url, headers=local, trust_env=False)
    assert allowed.headers["access-control-allow-origin"] == "http://localhost:3000"
    addresses = {c.laddr.ip for c in psutil.Process(status.pid).net_connections("tcp") if c.status == "LISTEN"}
    assert addresses == {"127.0.0.1"}
    assert "kv-secret" not in " ".join(psutil.Process(status.pid).cmdline())
    engine.stop()
    assert engine.wait_for(lambda s: s.phase is EnginePhase.STOPPED, 60).report.kind == "stopped"


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ({"kv_k": "Q8_0"}, "unknown-kv-type"),
        ({"kv_v": "q4_0", "flash_attention": FlashAttention.OFF}, "needs-flash-attention"),
        ({"context_tokens": 1 << 22}, "out-of-memory"),
        ({"extra_args": ("--nosuch",)}, "bad-option"),
    ],
)
def test_what_the_real_engine_refuses_is_explained(
    engine, build, starter_model: Path, free_port: int, settings: dict, kind: str
) -> None:
    report = launched(engine, plan_for(starter_model, free_port, **settings), build).report
    assert report is not None
    assert report.kind == kind, report


@pytest.mark.parametrize("content", [b"", b"<!doctype html>", b"GGUF" + b"\x63" * 60])
def test_a_file_the_real_engine_does_not_accept_is_named(
    engine, build, tmp_path: Path, free_port: int, content: bytes
) -> None:
    model = tmp_path / "nämlich 模型 'q' $x.gguf"
    model.write_bytes(content)
    report = launched(engine, plan_for(model, free_port), build).report
    assert report is not None
    assert report.kind == "bad-model", report
    assert "模型" in report.message


@pytest.mark.parametrize("name", ["--a b\nc '$x 🙂 \u202eevil.gguf", os.fsdecode(b"\xff\xfe.gguf")])
def test_odd_file_names_load(engine, build, starter_model: Path, tmp_path: Path, free_port: int, name: str) -> None:
    folder = tmp_path / "qü 模型"
    folder.mkdir()
    (folder / name).symlink_to(starter_model)
    status = launched(engine, plan_for(folder / name, free_port), build)
    assert status.phase is EnginePhase.READY, status.report


def test_a_port_taken_between_check_and_start_names_its_owner(
    engine, build, starter_model: Path, free_port: int, monkeypatch
) -> None:
    monkeypatch.setattr("kvarn.services.launch.engine_run.refuse_taken_port", lambda plan: None)
    with socket.create_server(("127.0.0.1", free_port)):
        report = launched(engine, plan_for(starter_model, free_port), build).report
    assert report is not None
    assert report.kind == "port-taken"
    assert f"(process {os.getpid()})" in report.message


def test_a_library_the_engine_lacks_is_named(engine, starter_model: Path, free_port: int, tmp_path: Path) -> None:
    server = tmp_path / "llama-server"
    words = "llama-server: error while loading shared libraries: libcublas.so.12: cannot open shared object file"
    server.write_text(f"#!/bin/sh\necho '{words}' >&2\nexit 127\n")
    server.chmod(0o755)
    broken = EngineBuild(server=server, bin_dir=tmp_path, base="", version="", is_kvarn=False)
    report = launched(engine, plan_for(starter_model, free_port), broken).report
    assert report is not None
    assert report.kind == "missing-library"
    assert "libcublas.so.12" in report.message


def test_the_engine_is_not_a_module_that_would_be_imported() -> None:
    code = "import sys; from kvarn.services.launch import engine_locator; assert 'llama_cpp' not in sys.modules"
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code], check=True, env=env, timeout=60)
