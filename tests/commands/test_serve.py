"""`kvarn serve` as a script sees it: lines, exit codes, and nothing left behind."""

from __future__ import annotations

import io
import json
import os
import pty
import signal
import time
from pathlib import Path

import httpx
import psutil
import pytest
from rich.console import Console
from typer.testing import CliRunner

from kvarn import cli
from kvarn.commands.serve_output import LineOutput, Ready
from kvarn.commands.serve_view import TerminalView
from kvarn.domain.launch.engine_status import EnginePhase, EngineStatus, ExitReport
from kvarn.domain.launch.launch_plan import LaunchPlan, LaunchSettings
from kvarn.domain.live.log_line import LogLevel, LogLine
from kvarn.domain.live.snapshot import snapshot
from kvarn.services.live.telemetry_store import TelemetryStore
from patience import HANG_S, promptly


def events_until(process, wanted: str) -> list[dict]:
    events = []
    for line in process.stdout:
        events.append(json.loads(line))
        if events[-1]["event"] == wanted:
            return events
    raise AssertionError(f"no {wanted} event in {events}; {process.stderr.read()}")


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_json_lines_tell_the_whole_life_and_sigint_ends_it_cleanly(start_kvarn, free_port) -> None:
    process = start_kvarn("serve", "starter", "--kv", "q8_0", "--ctx", "4096", "--port", str(free_port), "--json")
    events = events_until(process, "ready")
    ready = events[-1]
    assert ready["endpoint"] == f"http://127.0.0.1:{free_port}/v1"
    assert (ready["kv_k"], ready["kv_v"], ready["context_per_slot"]) == ("q8_0", "q8_0", 4096)
    assert [e["phase"] for e in events if e["event"] == "status"] == ["starting", "loading", "ready"]
    assert any(e["event"] == "log" and e["source"] == "engine" for e in events)
    models = httpx.get(f"{ready['endpoint']}/models", trust_env=False).json()
    assert models["data"][0]["id"] == ready["model"]
    figures = events_until(process, "telemetry")[-1]
    assert {"decode_tok_per_s", "prefill_tok_per_s", "engine_rss_bytes", "graph_builds_per_min"} <= figures.keys()
    process.send_signal(signal.SIGINT)
    last = events_until(process, "exit")[-1]
    assert process.wait(HANG_S) == 0
    assert last["kind"] == "stopped"
    assert is_gone(ready["pid"])


def test_plain_lines_when_piped_and_sigterm_ends_an_engine_that_ignores_it(start_kvarn, free_port, monkeypatch) -> None:
    monkeypatch.setenv("FAKE_IGNORE_TERM", "1")
    process = start_kvarn("serve", "starter", "--port", str(free_port), "--alias", "mine")
    for line in process.stdout:
        if line.startswith("kvarn: mine · K f16 · V f16 · 8,192 tokens per slot"):
            break
    else:
        raise AssertionError(process.stderr.read())
    assert f"http://127.0.0.1:{free_port}/v1" in line
    process.send_signal(signal.SIGTERM)
    rest = process.stdout.read()
    assert process.wait(HANG_S) == 0
    assert "by force" in rest


def test_a_stop_takes_less_than_five_seconds_even_by_force(start_kvarn, free_port, monkeypatch) -> None:
    monkeypatch.setenv("FAKE_IGNORE_TERM", "1")

    def stopping_s() -> float:
        process = start_kvarn("serve", "starter", "--port", str(free_port), "--json")
        events_until(process, "ready")
        begun = time.monotonic()
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        process.wait(HANG_S)
        return time.monotonic() - begun

    promptly(stopping_s, 5)


def test_a_stop_while_loading_is_clean(start_kvarn, free_port, monkeypatch) -> None:
    monkeypatch.setenv("FAKE_NEVER_READY", "1")
    process = start_kvarn("serve", "starter", "--port", str(free_port), "--json")
    for line in process.stdout:
        if '"loading"' in line:
            break
    process.send_signal(signal.SIGINT)
    assert events_until(process, "exit")[-1]["kind"] == "stopped"
    assert process.wait(HANG_S) == 0


def test_an_engine_that_fails_is_exit_one_with_its_reason_and_last_words(start_kvarn, free_port, monkeypatch) -> None:
    monkeypatch.setenv("FAKE_OOM", "1")
    process = start_kvarn("serve", "starter", "--port", str(free_port), "--json")
    last = events_until(process, "exit")[-1]
    assert last["kind"] == "out-of-memory"
    assert process.wait(HANG_S) == 1
    told = process.stderr.read()
    assert "ran out of memory" in told
    assert "failed to allocate buffer" in told


def test_when_its_reader_goes_away_the_engine_is_ended(start_kvarn, free_port) -> None:
    process = start_kvarn("serve", "starter", "--port", str(free_port), "--json")
    pid = events_until(process, "ready")[-1]["pid"]
    process.stdout.close()
    process.wait(HANG_S)
    assert is_gone(pid)


def test_the_key_guards_the_endpoint_and_is_shown_nowhere(start_kvarn, free_port, tmp_path: Path, monkeypatch) -> None:
    key_file = tmp_path / "key"
    key_file.write_text("kv-top-secret\n")
    monkeypatch.setenv("FAKE_SAY", "key is kv-top-secret")
    words = ("serve", "starter", "--port", str(free_port), "--api-key-file", str(key_file), "--lan", "--json")
    process = start_kvarn(*words)
    events = events_until(process, "telemetry")
    ready = next(event for event in events if event["event"] == "ready")
    assert ready["api_key"] is True
    url = f"{ready['endpoint']}/models"
    assert httpx.get(url, trust_env=False).status_code == 401
    assert httpx.get(url, headers={"Authorization": "Bearer kv-top-secret"}, trust_env=False).status_code == 200
    shown = [*psutil.Process(ready["pid"]).cmdline(), *psutil.Process(process.pid).cmdline()]
    process.send_signal(signal.SIGINT)
    shown.append(process.stdout.read())
    assert process.wait(HANG_S) == 0
    assert "kv-top-secret" not in json.dumps(events) + " ".join(shown) + process.stderr.read()


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (("--lan",), "no API key is set", 1),
        (("--kv", "Q8_0"), "Q8_0", 1),
        (("--port", "99999"), "99999", 1),
        (("--ctx", "-5"), "", 1),
        (("--lan", "--host", "10.0.0.1"), "either --host or --lan", 2),
        (("--nonsense",), "--nonsense", 2),
    ],
)
def test_what_cannot_be_served_is_refused_with_a_sentence(fake_engine_dir, monkeypatch, words, said, code) -> None:
    monkeypatch.setenv("KVARN_ENGINE_DIR", str(fake_engine_dir))
    result = CliRunner().invoke(cli.app, ["serve", "starter", "--json", *words])
    assert result.exit_code == code
    assert said in result.stderr
    assert result.stdout == ""


def test_on_a_terminal_a_live_view_is_drawn(start_kvarn, free_port) -> None:
    ours, its = pty.openpty()
    process = start_kvarn("serve", "starter", "--port", str(free_port), stdout=its)
    os.close(its)
    seen = b""
    deadline = time.monotonic() + HANG_S
    while b"decode" not in seen and time.monotonic() < deadline:
        seen += os.read(ours, 65536)
    process.send_signal(signal.SIGINT)
    while True:
        try:
            more = os.read(ours, 65536)
        except OSError:
            break
        if not more:
            break
    os.close(ours)
    assert process.wait(HANG_S) == 0
    assert "Kvarn · ready" in seen.decode("utf-8", "replace")


def test_the_live_view_shows_text_letter_for_letter_and_absence_as_a_dash() -> None:
    plan = LaunchPlan(model_path=Path("/m"), model_title="[b]x[/b]", mmproj=None, alias="", settings=LaunchSettings())
    console = Console(file=io.StringIO(), width=100, force_terminal=True)
    view = TerminalView(plan, console)
    view.status(EngineStatus(phase=EnginePhase.LOADING, plan=plan))
    view.status(EngineStatus(phase=EnginePhase.READY, plan=plan, pid=1))
    facts = {"kv_k": "f16", "kv_v": "f16", "context_per_slot": 8192, "slots": 2, "kv_bytes": None, "api_key": False}
    view.ready(Ready(endpoint="http://127.0.0.1:5827/v1", pid=1, model="[red]evil[/red] {x}", **facts))
    view.telemetry(snapshot(TelemetryStore(), 100.0))
    view.exit(ExitReport(kind="stopped", message="Stopped.", remedy=""))
    drawn = console.file.getvalue()
    assert "[b]x[/b]" in drawn
    assert "[red]evil[/red] {x} · K f16" in drawn
    assert "– tok/s" in drawn


def printed(capsys, *steps) -> list[str]:
    output = LineOutput()
    for step in steps:
        step(output)
    return capsys.readouterr().out.splitlines()


def said(text: str, level: LogLevel = LogLevel.INFO):
    return lambda output: output.log((LogLine(1, 0.0, "kvarn", level, text),), 0)


def entered(phase: EnginePhase, message: str = ""):
    report = ExitReport(kind="any", message=message, remedy="") if message else None
    return lambda output: output.status(EngineStatus(phase=phase, report=report))


def test_plain_lines_say_each_thing_once(capsys) -> None:
    assert printed(capsys, entered(EnginePhase.FAILED, "Port 1 is used.")) == ["kvarn: failed"]
    stop = (entered(EnginePhase.STOPPING), said("Stopped."), entered(EnginePhase.STOPPED, "Stopped."))
    assert printed(capsys, *stop) == ["kvarn: stopping", "kvarn: Stopped."]
    crash = (said("It was killed.", LogLevel.WARNING), entered(EnginePhase.RESTARTING, "It was killed."))
    assert printed(capsys, *crash) == ["kvarn: It was killed.", "kvarn: restarting"]
    failure = (said("No memory.", LogLevel.ERROR), entered(EnginePhase.FAILED, "No memory."))
    assert printed(capsys, *failure) == ["kvarn: failed"]


def test_plain_lines_lose_no_error_that_is_not_the_reason_of_a_failure(capsys) -> None:
    error, note = said("An error of the disk.", LogLevel.ERROR), said("starting it again in 1 s")
    told = printed(capsys, error, note, error, entered(EnginePhase.FAILED, "No memory."))
    assert told == [
        "kvarn: An error of the disk.",
        "kvarn: starting it again in 1 s",
        "kvarn: An error of the disk.",
        "kvarn: failed",
    ]
    assert printed(capsys, error, lambda output: output.exit(None)) == ["kvarn: An error of the disk."]
