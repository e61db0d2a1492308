"""The built engine, its programs, and servers on free ports with the starter model."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

ENGINE_PROJECT = Path(__file__).resolve().parents[2] / "engine"
START_S = 100.0


@pytest.fixture(scope="session")
def engine_build_info(engine_dir: Path) -> dict[str, Any]:
    """kvarn-build-info.json of the engine under test; a stock engine is no subject for these tests."""
    path = engine_dir / "kvarn-build-info.json"
    if not path.exists():
        pytest.skip(f"{engine_dir} holds no Kvarn engine")
    return json.loads(path.read_text())


class Server:
    """One running llama-server, met over HTTP only."""

    def __init__(self, process: subprocess.Popen[bytes], url: str, log: Path) -> None:
        self.process = process
        self.url = url
        self.log = log
        self.http = httpx.Client(base_url=url, timeout=600.0, trust_env=False)

    def complete(self, prompt: str | list[int] = "Once upon a time", **options: Any) -> dict[str, Any]:
        """A whole answer of /completion, greedy unless told otherwise."""
        body = {"prompt": prompt, "n_predict": 16, "temperature": 0.0, "cache_prompt": False} | options
        response = self.http.post("/completion", json=body)
        response.raise_for_status()
        return response.json()

    def metrics(self) -> dict[str, float]:
        """Every sample of /metrics by its name and labels as printed."""
        lines = self.http.get("/metrics").raise_for_status().text.splitlines()
        samples = (line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))
        return {name: float(value) for name, value in samples}

    def live(self) -> dict[str, Any]:
        """The object of /live."""
        return self.http.get("/live").raise_for_status().json()

    def is_busy(self) -> bool:
        """Whether any slot is processing."""
        return any(slot["is_processing"] for slot in self.http.get("/slots").json())

    def hang_up_after(self, wait: Callable[[], object], body: dict[str, Any]) -> None:
        """Post to /completion and close the connection once `wait` returns, answered or not."""
        raw = json.dumps(body).encode()
        host = httpx.URL(self.url)
        with socket.create_connection((host.host, host.port or 80)) as connection:
            head = f"POST /completion HTTP/1.1\r\nHost: {host.host}\r\nContent-Type: application/json\r\n"
            connection.sendall(f"{head}Content-Length: {len(raw)}\r\n\r\n".encode() + raw)
            wait()


@pytest.fixture(scope="session")
def start_server(
    engine_dir: Path, engine_build_info: dict[str, Any], starter_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., contextlib.AbstractContextManager[Server]]:
    """`with start_server("-c", "2048", env={...}) as server:` with the starter model on a free port."""

    @contextlib.contextmanager
    def start(
        *options: str, model: Path = starter_model, env: dict[str, str] | None = None, programs: Path | None = None
    ) -> Iterator[Server]:
        log = tmp_path_factory.mktemp("server") / "server.log"
        port = _free_port()
        program = (programs or engine_dir) / ("llama-server.exe" if sys.platform == "win32" else "llama-server")
        # One thread: on a busy machine several threads that wait for each other are slower than one.
        fixed = ["--host", "127.0.0.1", "--port", str(port), "--metrics", "-t", "1", "-tb", "1"]
        command = [str(program), "-m", str(model), *fixed, *options]
        with log.open("wb") as stream:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, env=os.environ | (env or {})
            )
        server = Server(process, f"http://127.0.0.1:{port}", log)
        try:
            _wait_until_ready(server)
            yield server
        finally:
            server.http.close()
            process.terminate()
            try:
                process.wait(60)
            finally:
                process.kill()
                process.wait()

    return start


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _wait_until_ready(server: Server) -> None:
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        if server.process.poll() is not None:
            break
        with contextlib.suppress(httpx.TransportError):
            if server.http.get("/health").status_code == 200:
                return
        time.sleep(0.1)
    pytest.fail(f"llama-server did not come up:\n{server.log.read_text(errors='replace')[-3000:]}")
