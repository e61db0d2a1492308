"""A thousand short requests to a hybrid model, some edited, some continued: does the server's memory stay where it was?

usage: checkpoint_soak.py [REQUESTS [BUDGET_MIB]]      needs the engine of this project; the model is tests/data's
Prints RSS and checkpoints ten times on the way, then whether a prompt that needs nearly every cell still finds room.
"""

from __future__ import annotations

import importlib.util
import random
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import psutil

REQUESTS = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
BUDGET_MIB = int(sys.argv[2]) if len(sys.argv) > 2 else 1
MODEL = Path(__file__).parents[2] / "tests" / "data" / "tiny-hybrid-mtp" / "tiny-hybrid-mtp.gguf"
OPENING = "Remember that the code for the lamp is 4821. Tell me a story about a fox and a red key. " * 3
OPTIONS = "-c 2048 -np 2 -kvu -ub 64 -cms 16 --spec-type draft-mtp --cache-ram 2 --metrics -t 2 --host 127.0.0.1"


def engine_program() -> Path:
    """llama-server beside the installed `llama_cpp`, found and not imported."""
    spec = importlib.util.find_spec("llama_cpp")
    if spec is None or spec.origin is None:
        sys.exit("no engine is installed: packaging/setup.sh makes it")
    return Path(spec.origin).parent / "bin" / "llama-server"


def free_port() -> int:
    """A port nobody has now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def ask(http: httpx.Client, text: str, tokens: int) -> dict[str, Any]:
    """One greedy answer."""
    body = {"messages": [{"role": "user", "content": text}], "temperature": 0.0, "max_tokens": tokens}
    return dict(http.post("/v1/chat/completions", json=body).raise_for_status().json())


def checkpoints(http: httpx.Client) -> dict[str, int]:
    """`kvarn:checkpoint_*` by the rest of the name."""
    lines = (line.rsplit(" ", 1) for line in http.get("/metrics").text.splitlines() if "kvarn:checkpoint_" in line)
    return {name.partition("checkpoint_")[2]: int(value) for name, value in lines if not name.startswith("#")}


def soak(http: httpx.Client, server: psutil.Process) -> None:
    """The requests, and a line for each tenth of them."""
    chance, most = random.Random(5), 0
    for number in range(1, REQUESTS + 1):
        ask(http, f"{number % 7} {OPENING[: chance.randint(40, 250)]}", 3)
        now = checkpoints(http)
        most = max(most, now["bytes"])
        if number % max(1, REQUESTS // 10) == 0:
            rss = server.memory_info().rss / (1 << 20)
            print(f"{number:6} requests  RSS {rss:7.2f} MiB  " + "  ".join(f"{k} {v}" for k, v in now.items()))
    print(f"most bytes of checkpoints seen: {most:,} of {BUDGET_MIB << 20:,}")
    full = ask(http, "x" * 1950, 4)
    print(f"a prompt of {full['usage']['prompt_tokens']} of 2048 cells: answered")


def main() -> None:
    """Start a server, soak it, end it."""
    port = free_port()
    command = [str(engine_program()), "-m", str(MODEL), "--port", str(port), "--ctx-checkpoints-mib", str(BUDGET_MIB)]
    process = subprocess.Popen(
        [*command, *OPTIONS.split()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=100.0, trust_env=False) as http:
            for _ in range(600):
                time.sleep(0.1)
                try:
                    if http.get("/health").status_code == httpx.codes.OK:
                        break
                except httpx.TransportError:
                    continue
            soak(http, psutil.Process(process.pid))
    finally:
        process.terminate()
        process.wait(20)


if __name__ == "__main__":
    main()
