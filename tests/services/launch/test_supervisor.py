"""The stories of an engine's life, told with a real child program."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from pathlib import Path

import httpx
import psutil
import pytest

from kvarn.domain.launch.engine_build import EngineBuild
from kvarn.domain.launch.engine_status import EnginePhase, EngineStatus
from kvarn.domain.launch.restart_policy import RestartPolicy
from kvarn.domain.live.log_line import LogLevel
from kvarn.services import paths
from kvarn.services.launch.supervisor import Supervisor
from patience import HANG_S, eventually, promptly

READY, FAILED, STOPPED = EnginePhase.READY, EnginePhase.FAILED, EnginePhase.STOPPED
LOADING, STOPPING, RESTARTING = EnginePhase.LOADING, EnginePhase.STOPPING, EnginePhase.RESTARTING


def until(supervisor: Supervisor, *phases: EnginePhase, timeout_s: float = HANG_S) -> EngineStatus:
    return supervisor.wait_for(lambda status: status.phase in phases, timeout_s)


def serve(supervisor: Supervisor, plan, build) -> EngineStatus:
    assert supervisor.launch(plan, build)
    status = until(supervisor, READY, FAILED)
    assert status.phase is READY, status.report
    return status


def serving_again(supervisor: Supervisor, restarts: int) -> EngineStatus:
    """The status once the engine serves after that many restarts."""
    return supervisor.wait_for(lambda status: status.phase is READY and status.restarts == restarts, HANG_S)


def is_gone(process: psutil.Process) -> bool:
    """Also true for a zombie that only its new parent, the system, has yet to reap."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_a_launch_becomes_an_endpoint_and_stop_ends_it(supervisor, make_plan, fake_build, recorder) -> None:
    status = serve(supervisor, make_plan(), fake_build)
    assert httpx.get(f"{status.endpoint}/models", trust_env=False).json()["data"][0]["id"] == "ours"
    supervisor.stop()
    ended = until(supervisor, STOPPED)
    assert ended.report is not None
    assert ended.report.kind == "stopped"
    assert not psutil.pid_exists(status.pid)
    assert recorder.phases == ["starting", "loading", "ready", "stopping", "stopped"]


def test_launch_pressed_twice_is_one_launch(supervisor, make_plan, fake_build, recorder) -> None:
    plan = make_plan("--fake-startup-delay-s", "0.3")
    assert [supervisor.launch(plan, fake_build) for _ in range(5)] == [True, False, False, False, False]
    until(supervisor, READY)
    assert supervisor.launch(plan, fake_build) is False
    assert len(psutil.Process().children()) == 1
    assert recorder.phases.count(EnginePhase.STARTING) == 1


def test_two_threads_pressing_launch_at_once_make_one_launch(supervisor, make_plan, fake_build) -> None:
    together, answers = threading.Barrier(4), []

    def press() -> None:
        together.wait()
        answers.append(supervisor.launch(make_plan(), fake_build))

    threads = [threading.Thread(target=press) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [False, False, False, True]


def test_stop_while_loading_ends_the_child_and_ends_stopped(supervisor, make_plan, fake_build) -> None:
    supervisor.launch(make_plan("--fake-never-ready", "1"), fake_build)
    pid = until(supervisor, LOADING).pid
    supervisor.stop()
    assert until(supervisor, STOPPED, FAILED).phase is STOPPED
    assert not psutil.pid_exists(pid)


def test_stop_right_after_launch_leaves_nothing(supervisor, make_plan, fake_build) -> None:
    supervisor.launch(make_plan(), fake_build)
    supervisor.stop()
    supervisor.wait_for(lambda status: status.phase is STOPPED and status.plan is not None, HANG_S)
    assert psutil.Process().children() == []


def test_a_launch_pressed_right_after_stop_is_not_stopped_by_it(supervisor, make_plan, fake_build) -> None:
    supervisor.stop()
    serve(supervisor, make_plan(), fake_build)
    supervisor.stop()
    until(supervisor, STOPPED)
    supervisor.stop()
    serve(supervisor, make_plan(), fake_build)


def test_stop_with_nothing_running_and_stop_twice_are_harmless(supervisor, make_plan, fake_build, recorder) -> None:
    supervisor.stop()
    serve(supervisor, make_plan(), fake_build)
    for _ in range(3):
        supervisor.stop()
    until(supervisor, STOPPED)
    assert recorder.phases.count(STOPPING) == 1


def test_an_engine_that_ignores_the_polite_request_is_ended_by_force(supervisor, make_plan, fake_build) -> None:
    status = serve(supervisor, make_plan("--fake-ignore-term", "1"), fake_build)
    supervisor.stop()
    ended = until(supervisor, STOPPED)
    assert ended.report is not None
    assert "by force" in ended.report.message
    assert not psutil.pid_exists(status.pid)


def test_what_the_engine_started_itself_ends_with_it(supervisor, make_plan, fake_build) -> None:
    status = serve(supervisor, make_plan("--fake-grandchild", "1"), fake_build)
    grandchild = psutil.Process(status.pid).children()[0]
    supervisor.stop()
    until(supervisor, STOPPED)
    eventually(lambda: is_gone(grandchild))


@pytest.mark.parametrize(
    ("how", "kind", "signal_name"),
    [("3", "crashed", None), ("SEGV", "bad-model", "SIGSEGV"), ("ABRT", "bad-model", "SIGABRT")],
)
def test_a_death_during_load_is_noticed_within_a_second_and_explained(
    supervisor, make_plan, fake_build, tmp_path: Path, how: str, kind: str, signal_name: str | None
) -> None:
    now = tmp_path / "now"
    plan = make_plan("--fake-exit", how, "--fake-say", "E something went wrong", "--fake-loads-until", str(now))

    def noticed_s() -> float:
        now.unlink(missing_ok=True)
        supervisor.launch(plan, fake_build)
        child = psutil.Process(until(supervisor, LOADING).pid)
        now.touch()
        eventually(lambda: is_gone(child))
        died = time.monotonic()
        until(supervisor, FAILED)
        return time.monotonic() - died

    promptly(noticed_s, 1)
    report = supervisor.status.report
    assert report is not None
    assert (report.kind, report.signal) == (kind, signal_name)
    assert "E something went wrong" in report.last_words


def test_a_good_launch_works_right_after_a_failed_one(supervisor, make_plan, fake_build) -> None:
    supervisor.launch(make_plan("--fake-exit", "1"), fake_build)
    until(supervisor, FAILED)
    serve(supervisor, make_plan(), fake_build)


def test_out_of_memory_says_so_and_what_to_do(supervisor, make_plan, fake_build) -> None:
    supervisor.launch(make_plan("--fake-oom", "1"), fake_build)
    report = until(supervisor, FAILED).report
    assert report is not None
    assert report.kind == "out-of-memory"
    assert "smaller" in report.remedy


def test_a_cache_type_this_engine_lacks_is_named(supervisor, make_plan, fake_build) -> None:
    supervisor.launch(make_plan(kv_k="tbq4_0"), fake_build)
    report = until(supervisor, FAILED).report
    assert report is not None
    assert report.kind == "unknown-kv-type"


def test_a_death_in_mid_answer_is_a_crash_with_the_signal(supervisor, make_plan, fake_build) -> None:
    status = serve(supervisor, make_plan("--fake-die-mid-answer", "1"), fake_build)
    body = {"messages": [], "stream": True}
    with pytest.raises(httpx.HTTPError):
        httpx.post(f"{status.endpoint}/chat/completions", json=body, trust_env=False, timeout=HANG_S)
    report = until(supervisor, FAILED).report
    assert report is not None
    assert (report.kind, report.signal) == ("crashed", "SIGABRT")


def test_a_kill_from_outside_is_told_as_a_kill(supervisor, make_plan, fake_build) -> None:
    status = serve(supervisor, make_plan(), fake_build)
    os.kill(status.pid, signal.SIGKILL)
    report = until(supervisor, FAILED).report
    assert report is not None
    assert report.kind == "killed"


def test_a_kill_that_is_followed_by_a_restart_is_a_warning_in_the_log(
    make_supervisor, make_plan, fake_build, recorder
) -> None:
    supervisor = make_supervisor(restart_policy=RestartPolicy(pauses_s=(0.05,)))
    os.kill(serve(supervisor, make_plan(), fake_build).pid, signal.SIGKILL)
    serving_again(supervisor, 1)
    killed = next(line for line in recorder.lines if "SIGKILL" in line)
    assert recorder.levels[killed] is LogLevel.WARNING
    supervisor.stop()
    until(supervisor, STOPPED)
    assert recorder.levels["Stopped."] is None


def test_trouble_overcome_while_loading_does_not_explain_a_later_end(
    supervisor, make_plan, fake_build, recorder, tmp_path: Path
) -> None:
    words, now = "E cudaMalloc failed: out of memory", tmp_path / "now"
    supervisor.launch(make_plan("--fake-say", words, "--fake-loads-until", str(now)), fake_build)
    eventually(lambda: words in recorder.lines)
    now.touch()
    status = until(supervisor, READY)
    os.kill(status.pid, signal.SIGSEGV)
    report = until(supervisor, FAILED).report
    assert report is not None
    assert report.kind == "crashed"


def test_a_crash_while_serving_restarts_with_pauses_and_gives_up(
    make_supervisor, make_plan, fake_build, recorder
) -> None:
    supervisor = make_supervisor(restart_policy=RestartPolicy(pauses_s=(0.05, 0.1)))
    supervisor.launch(make_plan(), fake_build)
    for life in range(3):
        os.kill(serving_again(supervisor, life).pid, signal.SIGABRT)
    status = until(supervisor, FAILED)
    assert status.restarts == 2
    assert recorder.phases.count(READY) == 3
    assert recorder.phases.count(RESTARTING) == 2


def test_stop_while_waiting_for_a_restart_ends_it(make_supervisor, make_plan, fake_build) -> None:
    supervisor = make_supervisor(restart_policy=RestartPolicy(pauses_s=(60.0,)))
    os.kill(serve(supervisor, make_plan(), fake_build).pid, signal.SIGABRT)
    until(supervisor, RESTARTING)
    supervisor.stop()
    assert until(supervisor, STOPPED).report is not None


def test_a_load_that_shows_no_life_is_ended_with_the_reason(make_supervisor, make_plan, fake_build) -> None:
    supervisor = make_supervisor(stall_s=0.8)
    supervisor.launch(make_plan("--fake-silent", "1"), fake_build)
    report = until(supervisor, FAILED).report
    assert report is not None
    assert report.kind == "load-stalled"


class CrankedClock:
    """Stands still unless told to jump; counts the readiness watch's looks at it."""

    def __init__(self) -> None:
        self.t = 1000.0
        self.looks = 0

    def now(self) -> float:
        self.looks += threading.current_thread().name == "engine-readiness"
        return self.t

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def log_bytes(supervisor: Supervisor) -> float:
    return supervisor._run._child.lines.bytes_read


def cpu_s(supervisor: Supervisor) -> float:
    return sum(psutil.Process(supervisor.status.pid).cpu_times()[:2])


@pytest.mark.parametrize(
    ("life", "sign", "least"), [("--fake-load-log-s", log_bytes, 0), ("--fake-load-busy", cpu_s, 0.02)]
)
def test_a_slow_load_that_logs_or_computes_is_left_alone(
    make_supervisor, make_plan, fake_build, tmp_path: Path, life: str, sign, least: float
) -> None:
    clock, now = CrankedClock(), tmp_path / "now"
    supervisor = make_supervisor(clock=clock, stall_s=0.8)
    supervisor.launch(make_plan(life, "0.02", "--fake-loads-until", str(now)), fake_build)
    until(supervisor, LOADING)
    for _ in range(10):
        before, looks = sign(supervisor), clock.looks
        # Life first, then a look at it: so each second of this clock has its sign.
        eventually(lambda before=before: sign(supervisor) - before > least)
        clock.t += 0.5
        eventually(lambda looks=looks: clock.looks > looks)
    now.touch()
    assert until(supervisor, READY, FAILED).phase is READY


def test_a_suspended_machine_is_not_a_silent_engine(make_supervisor, make_plan, fake_build, tmp_path: Path) -> None:
    clock, now = CrankedClock(), tmp_path / "now"
    supervisor = make_supervisor(clock=clock, stall_s=60)
    supervisor.launch(make_plan("--fake-loads-until", str(now)), fake_build)
    until(supervisor, LOADING)
    clock.t += 8 * 3600
    looks = clock.looks
    eventually(lambda: clock.looks >= looks + 3)
    now.touch()
    assert until(supervisor, READY, FAILED).phase is READY


def test_a_flood_of_fifty_megabytes_neither_blocks_nor_fills_memory(
    make_supervisor, make_plan, fake_build, recorder
) -> None:
    def slow_reader(source: str, line: str, level=None) -> None:
        recorder.on_log(source, "")
        time.sleep(0.0005)

    before = psutil.Process().memory_info().rss
    supervisor = make_supervisor(on_log=slow_reader)
    begun = time.monotonic()
    status = serve(supervisor, make_plan("--fake-flood-bytes", str(50 << 20)), fake_build)
    body = {"messages": [], "max_tokens": 2}
    assert (
        httpx.post(f"{status.endpoint}/chat/completions", json=body, trust_env=False, timeout=HANG_S).status_code == 200
    )
    # The reader would take minutes for all of it.
    assert time.monotonic() - begun < HANG_S
    assert psutil.Process().memory_info().rss - before < 120 << 20


def test_output_that_is_no_text_is_survived(supervisor, make_plan, fake_build, recorder) -> None:
    serve(supervisor, make_plan("--fake-garbage", "1"), fake_build)
    eventually(lambda: any(line.endswith("[…]") for line in recorder.lines))
    supervisor.stop()
    until(supervisor, STOPPED)
    assert any("�" in line for line in recorder.lines)
    assert max(map(len, recorder.lines)) < 10_000


def test_closing_while_loading_leaves_no_child_and_no_thread(make_supervisor, make_plan, fake_build) -> None:
    supervisor = make_supervisor()
    supervisor.launch(make_plan("--fake-never-ready", "1", "--fake-ignore-term", "1"), fake_build)
    until(supervisor, LOADING)
    begun = time.monotonic()
    supervisor.close()
    assert time.monotonic() - begun < 5, "the last resort of a close, after the grace of half a second"
    assert psutil.Process().children() == []
    eventually(lambda: not [t for t in threading.enumerate() if t.name.startswith("engine")])
    assert supervisor.launch(make_plan(), fake_build) is False


def test_closing_right_after_launch_leaves_nothing(make_supervisor, make_plan, fake_build) -> None:
    supervisor = make_supervisor()
    supervisor.launch(make_plan(), fake_build)
    supervisor.close()
    assert psutil.Process().children() == []


def test_a_missing_engine_program_is_a_sentence(supervisor, make_plan, fake_build, tmp_path: Path) -> None:
    broken = tmp_path / "llama-server"
    broken.write_bytes(b"\x7fELF nonsense")
    broken.chmod(0o755)
    build = EngineBuild(server=broken, bin_dir=tmp_path, base="", version="", is_kvarn=False)
    supervisor.launch(make_plan(), build)
    report = until(supervisor, FAILED).report
    assert report is not None
    assert report.kind == "engine-missing"
    assert "Exec format error" in report.message


@pytest.mark.skipif(sys.platform == "win32", reason="needs a folder that cannot be made")
@pytest.mark.parametrize("api_key", [None, "a-key"])
def test_a_state_folder_that_cannot_be_written_never_leaves_a_launch_hanging(
    supervisor, make_plan, fake_build, kvarn_home: Path, api_key: str | None
) -> None:
    (kvarn_home / "state").mkdir(parents=True, exist_ok=True)
    (paths.state_dir() / "engines").write_text("in the way")
    supervisor.launch(make_plan(), fake_build, api_key)
    status = until(supervisor, READY, FAILED)
    # Without a key only the note for a clean-up is lost; a key that cannot be handed over ends the launch.
    assert status.phase is (FAILED if api_key else READY)
    supervisor.stop()
    until(supervisor, STOPPED, FAILED)
    assert psutil.Process().children() == []


def test_the_key_is_in_no_argument_no_log_no_environment_and_its_file_is_gone(
    supervisor, make_plan, fake_build, recorder, monkeypatch, tmp_path: Path
) -> None:
    key = "kv-very-secret-word"
    monkeypatch.setenv("KVARN_API_KEY", key)
    monkeypatch.setenv("LLAMA_ARG_CTX_SIZE", "17")
    monkeypatch.setenv("FAKE_SAY", f"I srv init: api_keys: ****{key[-4:]} and {key}")
    now = tmp_path / "now"
    supervisor.launch(make_plan("--fake-loads-until", str(now)), fake_build, key)
    engine = psutil.Process(until(supervisor, LOADING).pid)
    key_files = list((paths.state_dir() / "engines").glob("key-*"))
    assert [oct(path.stat().st_mode & 0o777) for path in key_files] == ["0o600"]
    now.touch()
    status = until(supervisor, READY)
    assert key not in " ".join(engine.cmdline())
    assert "KVARN_API_KEY" not in engine.environ()
    assert "LLAMA_ARG_CTX_SIZE" not in engine.environ()
    assert httpx.get(f"{status.endpoint}/models", trust_env=False).status_code == 401
    answer = httpx.get(f"{status.endpoint}/models", headers={"Authorization": f"Bearer {key}"}, trust_env=False)
    assert answer.status_code == 200
    assert not key_files[0].exists()
    eventually(lambda: any("api_keys: [key]" in line for line in recorder.lines))
    supervisor.stop()
    ended = until(supervisor, STOPPED)
    assert key not in "\n".join(recorder.lines)
    assert key[-4:] not in "\n".join(recorder.lines)
    assert key not in repr(ended)


def test_a_taken_port_is_refused_with_its_owner_before_anything_starts(
    supervisor, make_plan, fake_build, make_supervisor, recorder
) -> None:
    serve(make_supervisor(), make_plan(), fake_build)
    recorder.phases.clear()
    supervisor.launch(make_plan(), fake_build)
    report = until(supervisor, FAILED).report
    assert report is not None
    assert report.kind == "port-taken"
    assert "(process " in report.message
    assert "is free" in report.remedy
    assert LOADING not in recorder.phases


def test_an_answer_under_another_name_is_not_taken_for_ours(
    make_supervisor, make_plan, fake_build, monkeypatch
) -> None:
    monkeypatch.setattr("kvarn.services.launch.readiness._STRANGER_S", 0.3)
    supervisor = make_supervisor()
    supervisor.launch(make_plan("--fake-alias", "somebody-elses-model"), fake_build)
    report = until(supervisor, FAILED).report
    assert report is not None
    assert report.kind == "port-taken"


def test_a_subscriber_that_fails_does_not_stop_the_engine_or_the_others(
    supervisor, make_plan, fake_build, caplog
) -> None:
    def broken(status: EngineStatus) -> None:
        raise RuntimeError("no")

    seen: list[EnginePhase] = []
    supervisor.subscribe(broken)
    unsubscribe = supervisor.subscribe(lambda status: seen.append(status.phase))
    serve(supervisor, make_plan(), fake_build)
    unsubscribe()
    assert {EnginePhase.STARTING, LOADING} <= set(seen)
    supervisor.stop()
    until(supervisor, STOPPED)
    assert STOPPED not in seen
    supervisor.close()  # every status has been told
    failures = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert failures
    for record in failures:
        record.expected = True


def test_the_next_load_waits_until_memory_has_settled_but_not_for_ever(make_supervisor, make_plan, fake_build) -> None:
    readings: list[int] = []

    def growing() -> tuple[int]:
        readings.append(len(readings) << 30)
        return (readings[-1],)

    clock = CrankedClock()
    supervisor = make_supervisor(clock=clock, read_free=growing)
    serve(supervisor, make_plan(), fake_build)
    supervisor.stop()
    until(supervisor, STOPPED)
    supervisor.launch(make_plan(), fake_build)
    for second in range(5):
        eventually(lambda second=second: len(readings) > second)
        assert supervisor.status.phase is EnginePhase.STARTING
        clock.t += 1
    until(supervisor, LOADING)
