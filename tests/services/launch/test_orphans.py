"""However the console ends, no engine is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

import kvarn
from kvarn.services import paths
from kvarn.services.launch import child_shim
from kvarn.services.launch.leftovers import end_leftovers, note_engine
from patience import HANG_S, eventually

CONSOLE = """
import sys, time
from pathlib import Path
from kvarn.domain.launch.engine_build import EngineBuild
from kvarn.domain.launch.launch_plan import LaunchPlan, LaunchSettings
from kvarn.services.launch.supervisor import Supervisor

server, port, *switches = sys.argv[1:]
build = EngineBuild(server=Path(server), bin_dir=Path(server).parent, base="", version="", is_kvarn=False)
settings = LaunchSettings(port=int(port), extra_args=tuple(switches))
plan = LaunchPlan(model_path=Path("/m.gguf"), model_title="m", mmproj=None, alias="m", settings=settings)
supervisor = Supervisor()
supervisor.launch(plan, build)
print(supervisor.wait_for(lambda s: s.pid is not None, 60).pid, flush=True)
if "--fake-never-ready" not in switches:
    supervisor.wait_for(lambda s: s.phase == "ready", 60)
print("go", flush=True)
time.sleep(300)
"""


def start_console(server: Path, port: int, *switches: str) -> tuple[subprocess.Popen[str], psutil.Process]:
    env = os.environ | {"PYTHONPATH": str(Path(kvarn.__file__).parents[1])}
    argv = [sys.executable, "-c", CONSOLE, str(server), str(port), *switches]
    console = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=env)
    assert console.stdout is not None
    engine = psutil.Process(int(console.stdout.readline()))
    assert console.stdout.readline() == "go\n"
    return console, engine


def end(console: subprocess.Popen[str], how: signal.Signals) -> None:
    console.send_signal(how)
    console.wait(HANG_S)
    assert console.stdout is not None
    console.stdout.close()


def is_gone(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.mark.skipif(sys.platform != "linux", reason="the parent-death signal is Linux's")
@pytest.mark.parametrize(
    ("how", "switches"),
    [
        (signal.SIGKILL, ()),
        (signal.SIGKILL, ("--fake-ignore-term", "1")),
        (signal.SIGKILL, ("--fake-never-ready", "1")),
        (signal.SIGABRT, ("--fake-ignore-term", "1")),
        (signal.SIGTERM, ()),
    ],
)
def test_no_engine_outlives_its_console(fake_build, free_port, how: signal.Signals, switches: tuple[str, ...]) -> None:
    console, engine = start_console(fake_build.server, free_port, *switches)
    end(console, how)
    eventually(lambda: is_gone(engine))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has job objects")
def test_where_no_signal_tells_of_the_parents_death_a_watcher_ends_the_group(tmp_path: Path) -> None:
    code = "import runpy, sys; sys.platform = 'other'; runpy.run_path(sys.argv.pop(1), run_name='__main__')"
    sleeper = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(300)"]
    argv = [sys.executable, "-c", code, child_shim.__file__, str(os.getpid()), *sleeper]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, start_new_session=True, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.stdin.close()  # as the system does when the console dies
        assert process.wait(HANG_S) == -signal.SIGKILL


def test_the_next_start_ends_an_engine_whose_console_is_gone(fake_build, free_port, tmp_path: Path) -> None:
    """As where the system has no parent-death signal: the engine is started outside a supervisor."""
    note = (
        "import subprocess, sys; from kvarn.services.launch.leftovers import note_engine;"
        "engine = subprocess.Popen(sys.argv[1:], stdout=-3, stderr=-3, start_new_session=True);"
        "assert note_engine(engine.pid, 1); print(engine.pid)"
    )
    env = os.environ | {"PYTHONPATH": str(Path(kvarn.__file__).parents[1])}
    argv = [sys.executable, "-W", "ignore", "-c", note, str(fake_build.server), "--port", str(free_port)]
    done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, env=env, check=True, timeout=HANG_S)
    engine = psutil.Process(int(done.stdout))
    assert engine.is_running()
    assert [note.pid for note in end_leftovers()] == [engine.pid]
    eventually(lambda: is_gone(engine))
    assert end_leftovers() == ()


def test_engines_of_a_console_that_lives_and_processes_that_took_over_an_id_are_left_alone(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as bystander:
        path = note_engine(bystander.pid, 1)
        assert path is not None
        assert end_leftovers() == ()
        assert path.exists()
        ours = path.read_text()
        # The console's id now belongs to somebody else, and so does the engine's.
        path.write_text(ours.replace('"console_pid":', '"console_pid":99').replace('"started":', '"started":1'))
        assert end_leftovers() == ()
        assert not path.exists()
        assert bystander.poll() is None
        bystander.communicate(b"\n")


def test_a_damaged_note_is_cleared_away(tmp_path: Path) -> None:
    folder = paths.state_dir() / "engines"
    folder.mkdir(parents=True)
    (folder / "engine-1.json").write_text("{")
    assert end_leftovers() == ()
    assert list(folder.iterdir()) == []
