"""What speculation gains and costs, with a length that adapts and with fixed ones, interleaved against none.

usage: speculation.py [ROUNDS [TOKENS]]      needs the engine
Copying phrases (ngram-simple) on the starter model, over a text that repeats and over sampled noise; the prediction
block (draft-mtp) of the small hybrid model in tests/data, over its own kind of text and over random bytes. All servers
of a part run at once and answer in turn, so that a drift of the machine meets every arm; a figure is the median of
the ratios to the arm without speculation in the same round, with its quartiles. Decode speed is the engine's own.
"""

from __future__ import annotations

import contextlib
import random
import statistics
import sys
from pathlib import Path
from typing import Any, NamedTuple

from served_engine import HYBRID, ServedEngine, own_programs, served, starter_path

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 7
TOKENS = int(sys.argv[2]) if len(sys.argv) > 2 else 256
ALONE = ("-np", "1", "-c", "4096", "-t", "2")
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


class Arm(NamedTuple):
    """One server and what it is called."""

    name: str
    engine: ServedEngine

    def speed(self, request: dict[str, Any]) -> tuple[float, float]:
        """Decode tokens per second and the share of drafted tokens accepted."""
        timings = self.engine.answer(tokens=TOKENS, **request)
        drafted = timings.get("draft_n", 0)
        return timings["predicted_per_second"], timings.get("draft_n_accepted", 0) / drafted if drafted else 0.0

    def depth(self) -> str:
        """The depth in use, as /metrics has it."""
        return next((f"{value:g}" for value in self.engine.metrics("kvarn:spec_depth{").values()), "–")


def part(title: str, model: Path, arms: dict[str, tuple[str, ...]], texts: dict[str, Any]) -> None:
    """Measure one model's arms on its texts and print a line for each."""
    print(title, flush=True)
    with contextlib.ExitStack() as stack:
        servers = [
            Arm(name, stack.enter_context(served(own_programs(), model, *ALONE, *options)))
            for name, options in arms.items()
        ]
        for label, text in texts.items():
            _compare(label, servers, text)


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
        starter_path(),
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
