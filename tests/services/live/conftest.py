"""Engines to look at: the stand-in program, and the real one where it is installed."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from kvarn.services.live import polling_feed, pushed_feed

FAKE_ENGINE = Path(__file__).parents[2] / "fakes" / "fake_engine.py"


@pytest.fixture(autouse=True)
def patient_feeds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in that a busy machine holds up is late, not silent."""
    for feed in (polling_feed, pushed_feed):
        monkeypatch.setattr(feed, "TIMEOUT", httpx.Timeout(60.0))


class RunningEngine:
    """An engine child and how to reach it."""

    def __init__(self, argv: list[str], env: dict[str, str], port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.child = subprocess.Popen(argv, env=os.environ | env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    @property
    def pid(self) -> int:
        return self.child.pid

    def wait_ready(self, seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            assert self.child.poll() is None, "the engine ended early"
            try:
                if httpx.get(f"{self.url}/health", trust_env=False).status_code == 200:
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.05)
        raise AssertionError("the engine did not become ready")

    def answer(self, path: str = "/v1/chat/completions", **body: object) -> dict:
        response = httpx.post(f"{self.url}{path}", json=body, timeout=120, trust_env=False)
        response.raise_for_status()
        return response.json()

    def end(self) -> None:
        self.child.kill()
        self.child.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def fake_engine() -> Iterator[Callable[..., RunningEngine]]:
    """Start the stand-in with options and FAKE_ switches, e.g. fake_engine("--metrics", metrics="nan")."""
    engines: list[RunningEngine] = []

    def start(*options: str, ready: bool = True, **switches: object) -> RunningEngine:
        port = free_port()
        argv = [sys.executable, str(FAKE_ENGINE), "--port", str(port), *options]
        env = {f"FAKE_{name.upper()}": str(value) for name, value in switches.items()}
        engines.append(RunningEngine(argv, env, port))
        if ready:
            engines[-1].wait_ready()
        return engines[-1]

    yield start
    for engine in engines:
        engine.end()


@pytest.fixture(scope="module")
def starter_engine(engine_dir: Path, starter_model: Path) -> Iterator[RunningEngine]:
    """The real engine with the starter model, two slots and metrics."""
    port = free_port()
    argv = [str(engine_dir / "llama-server"), "-m", str(starter_model), "--port", str(port), "--metrics"]
    engine = RunningEngine([*argv, "-c", "4096", "-np", "2", "-t", "1"], {}, port)
    try:
        engine.wait_ready()
        yield engine
    finally:
        engine.end()
