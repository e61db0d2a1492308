"""What telling the live state costs: decode speed with and without readers, and how long a reader waits at worst.

usage: live_cost.py [--rounds 12] [--tokens 256] [--threads 2] [--against BIN_DIR]

Decode: the engine's own timing of one greedy answer, once in each state a round, the order turned each round; a ratio
is state / nobody of one round, so that a drift of the machine cancels. States: nobody looks, a stream of 4 Hz, one of
20 Hz, and polling /slots and /metrics 4 times a second as before there was a stream. `--against` names the programs of
an engine without live state: both run, and the ratio ours / theirs with nobody looking is what publishing costs.
Publishing: the share of an answer's time outside the three parts that its steps are made of (decode call, sampling,
other). Publishing and the turn of the task queue are all that is left there, so it is the most that publishing costs.
Serving: CPU time of the engine's threads that do not decode, as a share of the answer's time (Linux).
Waiting: a reader asks GET /live 20 times a second during a long prompt and while a slot is saved and restored; the
shortest answer there is, /health, shows what of it is the machine's.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx
from served_engine import ServedEngine, own_programs, served, starter_path

LONG_PROMPT = [1000 + n % 500 for n in range(3000)]


def spread(values: list[float]) -> str:
    """Median and quartiles."""
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"median {middle:.4f}, quartiles {low:.4f} to {high:.4f}, {len(values)} rounds"


class Reader:
    """Looks at an engine from a thread of its own until the block ends."""

    def __init__(self, look: Callable[[httpx.Client, threading.Event], None], url: str) -> None:
        self._ending = threading.Event()
        self._http = httpx.Client(base_url=url, timeout=60.0, trust_env=False)
        self._thread = threading.Thread(target=look, args=(self._http, self._ending))

    def __enter__(self) -> None:
        self._thread.start()
        time.sleep(0.3)

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()
        self._http.close()


def stream(hz: int) -> Callable[[httpx.Client, threading.Event], None]:
    """Read the stream and throw it away."""

    def look(http: httpx.Client, ending: threading.Event) -> None:
        with http.stream("GET", f"/live/stream?hz={hz}") as response:
            for _ in response.iter_raw():
                if ending.is_set():
                    return

    return look


def poll(http: httpx.Client, ending: threading.Event) -> None:
    """Ask as a console does without a stream."""
    while not ending.wait(0.25):
        for path in ("/slots", "/metrics"):
            http.get(path)


def nothing(_: httpx.Client, ending: threading.Event) -> None:
    """Nobody looks."""
    ending.wait()


STATES = {"nobody": nothing, "stream 4 Hz": stream(4), "stream 20 Hz": stream(20), "polling 4 Hz": poll}


def cpu_s(pid: int) -> dict[str, float]:
    """CPU seconds of each thread of a process, by its number, as the scheduler counts them."""
    texts = {file.parent.name: file.read_text() for file in Path(f"/proc/{pid}/task").glob("*/schedstat")}
    return {number: int(text.split()[0]) / 1e9 for number, text in texts.items()}


def decode_with_readers(engine: ServedEngine, rounds: int, tokens: int, threads: int) -> None:
    """Print the ratio of each state to nobody, and what the threads beside the decoding ones took."""
    ratios: dict[str, list[float]] = {name: [] for name in STATES}
    shares: dict[str, list[float]] = {name: [] for name in STATES}
    for number in range(rounds):
        speeds = {}
        for name in STATES if number % 2 else reversed(STATES):
            with Reader(STATES[name], engine.url):
                before, begun = cpu_s(engine.pid), time.monotonic()
                speeds[name] = engine.answer("Once upon a time", tokens)["predicted_per_second"]
                took_s = time.monotonic() - begun
                used = sorted(after - before.get(thread, 0.0) for thread, after in cpu_s(engine.pid).items())
            shares[name].append(sum(used[:-threads]) / took_s)
        for name, speed in speeds.items():
            ratios[name].append(speed / speeds["nobody"])
    for name in STATES:
        print(f"CPU of the engine's other threads, {name}: {spread(shares[name])} of a core", flush=True)
    for name in list(STATES)[1:]:
        print(f"decode, {name} / nobody: {spread(ratios[name])}", flush=True)


def decode_against(ours: ServedEngine, theirs: ServedEngine, rounds: int, tokens: int) -> None:
    """Print what publishing costs while nobody looks."""
    ratios = []
    for number in range(rounds):
        order = (ours, theirs) if number % 2 else (theirs, ours)
        speeds = {engine.url: engine.answer("Once upon a time", tokens)["predicted_per_second"] for engine in order}
        ratios.append(speeds[ours.url] / speeds[theirs.url])
    print(f"decode, with live state / without, nobody looks: {spread(ratios)}", flush=True)


def outside_steps(engine: ServedEngine, tokens: int) -> float:
    """Share of the time of one answer that is in no part of any step."""
    totals = [f"{part}_ms_total" for part in ("decode", "sampling", "other")]
    before = engine.http.get("/live").json()["steps"]
    timings = engine.answer("Once upon a time", tokens)
    after = engine.http.get("/live").json()["steps"]
    inside_ms = sum(after[name] - before[name] for name in totals)
    return 1 - inside_ms / (timings["prompt_ms"] + timings["predicted_ms"])


def waits(engine: ServedEngine, busy: Callable[[], object], path: str = "/live") -> list[float]:
    """Milliseconds of each GET of `path` at 20 Hz while the engine is kept busy."""
    took_ms: list[float] = []

    def look(http: httpx.Client, ending: threading.Event) -> None:
        while not ending.wait(0.05):
            begun = time.perf_counter()
            http.get(path).raise_for_status()
            took_ms.append(1000 * (time.perf_counter() - begun))

    with Reader(look, engine.url):
        busy()
    return took_ms


def print_waits(what: str, took_ms: list[float], path: str = "/live") -> None:
    """Median, p99 and worst."""
    p99 = statistics.quantiles(took_ms, n=100, method="inclusive")[98]
    print(
        f"GET {path} at 20 Hz during {what}: median {statistics.median(took_ms):.2f} ms, p99 {p99:.2f} ms, "
        f"worst {max(took_ms):.2f} ms, {len(took_ms)} answers",
        flush=True,
    )


def save_and_restore(engine: ServedEngine) -> None:
    """Write the slot's state to a file and back, a dozen times."""
    for action in ("save", "restore") * 12:
        engine.http.post(f"/slots/0?action={action}", json={"filename": "state"}).raise_for_status()


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--threads", default="2")
    parser.add_argument("--against", type=Path)
    chosen = parser.parse_args()
    options = ("-c", "8192", "-np", "1", "-t", chosen.threads, "-tb", chosen.threads)
    own, model = own_programs(), starter_path()
    with tempfile.TemporaryDirectory() as folder, served(own, model, *options, "--slot-save-path", folder) as ours:
        ours.answer("Once upon a time", 16)
        if chosen.against:
            with served(chosen.against, model, *options) as theirs:
                theirs.answer("Once upon a time", 16)
                decode_against(ours, theirs, chosen.rounds, chosen.tokens)
        shares = [outside_steps(ours, chosen.tokens) for _ in range(chosen.rounds)]
        print(f"share of an answer outside its steps, publishing included: {spread(shares)}", flush=True)
        decode_with_readers(ours, chosen.rounds, chosen.tokens, int(chosen.threads))
        print_waits("a long prompt", waits(ours, lambda: ours.answer(LONG_PROMPT, 1, cache_prompt=True)))
        floor = waits(ours, lambda: ours.answer(LONG_PROMPT, 1), "/health")
        print_waits("a long prompt", floor, "/health")
        print_waits("saving and restoring a slot", waits(ours, lambda: save_and_restore(ours)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
