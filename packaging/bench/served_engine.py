"""One llama-server for a measurement, on a free port, ended with the block; and the models to serve."""

from __future__ import annotations

import contextlib
import os
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

TESTS = Path(__file__).resolve().parents[2] / "tests"
sys.path.insert(0, str(TESTS))

from real_models import package_folder, starter_path  # noqa: E402

__all__ = ["HYBRID", "ServedEngine", "own_programs", "served", "starter_path"]

HYBRID = TESTS / "data" / "tiny-hybrid-mtp" / "tiny-hybrid-mtp.gguf"


def own_programs() -> Path:
    """The engine under test: KVARN_ENGINE_DIR, else the installed one."""
    told = os.environ.get("KVARN_ENGINE_DIR")
    return Path(told) if told else package_folder("llama_cpp") / "bin"


class ServedEngine:
    """A running server, met over HTTP."""

    def __init__(self, url: str, pid: int) -> None:
        self.url, self.pid = url, pid
        self.http = httpx.Client(base_url=url, timeout=3600.0, trust_env=False)

    def answer(self, prompt: str | list[int], tokens: int, **options: Any) -> dict[str, Any]:
        """The engine's own timings of one greedy answer of so many tokens."""
        body = {"prompt": prompt, "n_predict": tokens, "temperature": 0, "ignore_eos": True, "cache_prompt": False}
        return self.http.post("/completion", json=body | options).raise_for_status().json()["timings"]

    def metrics(self, prefix: str = "") -> dict[str, float]:
        """What /metrics tells now under names that begin so, labels included."""
        lines = self.http.get("/metrics").raise_for_status().text.splitlines()
        told = (line.rpartition(" ") for line in lines if line and not line.startswith("#"))
        return {name: float(value) for name, _, value in told if name.startswith(prefix)}


@contextlib.contextmanager
def served(programs: Path, model: Path, *options: str) -> Iterator[ServedEngine]:
    """Start it with these options besides model, port and --metrics; wait until it answers."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [str(programs / "llama-server"), "-m", str(model), "--port", str(port), "--metrics", *options]
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet)
    engine = ServedEngine(f"http://127.0.0.1:{port}", process.pid)
    try:
        _wait_until_ready(engine, process)
        yield engine
    finally:
        engine.http.close()
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_ready(engine: ServedEngine, process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:
        with contextlib.suppress(httpx.TransportError):
            if engine.http.get("/health").status_code == httpx.codes.OK:
                return
        time.sleep(0.1)
    raise SystemExit(f"the engine did not start: {shlex.join(map(str, process.args))}")
