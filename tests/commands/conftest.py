"""Runs the `kvarn` program as a person or a script would."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import kvarn

Kvarn = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def start_kvarn(fake_engine_dir: Path) -> Iterator[Kvarn]:
    """`start_kvarn("serve", "starter")` with the stand-in engine; ended at the end of the test."""
    running: list[subprocess.Popen[str]] = []

    def start(*words: str, **streams) -> subprocess.Popen[str]:
        env = os.environ | {"PYTHONPATH": str(Path(kvarn.__file__).parents[1])}
        env["KVARN_ENGINE_DIR"] = str(fake_engine_dir)
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | streams
        running.append(subprocess.Popen([sys.executable, "-m", "kvarn", *words], text=True, env=env, **pipes))
        return running[-1]

    yield start
    for process in running:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(60)
        process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream:
                stream.close()
