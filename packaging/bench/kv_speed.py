"""Decode and prefill speed by cache type and depth: our engine against an unpatched build of the same sdist.

usage: kv_speed.py STOCK_BIN_DIR [--model starter|gemma|FILE ...] [--types f16,q8_0,…] [--depths 0,4096]
                                  [--rounds 5] [--repetitions 2] [--threads 2]

A round runs `llama-bench` once for each type on both engines, one after the other, the order reversed in every other
round; a ratio is ours / stock of one round, so that a steady drift cancels over an even number of rounds. A run fills
the cache once and repeats its test. A type the stock engine lacks is held against stock f16 and q4_0, a trellis type
also against our scalar type of its size.
Prints a Markdown table of medians with quartiles, depth by depth. Run it on a machine at rest.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from real_models import model_path, package_folder  # noqa: E402

PROMPT_TOKENS, ANSWER_TOKENS = 256, 64
Run = tuple[str, str]
"""Whose engine, `ours` or `stock`, and the cache type."""
NEIGHBOURS = ("f16", "q4_0")
SIBLINGS = {"tcq4_0": "tbq4_0", "tcq3_0": "planar3_0"}
"""Types of the same size, ours both."""
Speeds = dict[Run, dict[str, float]]
STOCK_TYPES = {"f16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "iq4_nl"}


def speeds(program: Path, model: Path, kv: str, depth: int, arguments: argparse.Namespace) -> dict[str, float]:
    """Tokens per second of one run, `decode` and `prefill` at that filled depth."""
    command = [str(program), "-m", str(model), "-ctk", kv, "-ctv", kv, "-d", str(depth), "-fa", "1", "-o", "json"]
    command += ["-t", str(arguments.threads), "-r", str(arguments.repetitions)]
    command += ["-p", str(PROMPT_TOKENS), "-n", str(ANSWER_TOKENS)]
    done = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    rows = json.loads(done.stdout)
    return {"decode" if row["n_gen"] else "prefill": statistics.median(row["samples_ts"]) for row in rows}


def measure(
    programs: dict[str, Path], model: Path, arguments: argparse.Namespace, runs: list[Run], depth: int
) -> list[Speeds]:
    """Every run once a round, one dictionary a round; the order turns round each time."""
    rounds: list[Speeds] = []
    for number in range(arguments.rounds):
        found: Speeds = {}
        for whose, kv in runs if number % 2 else reversed(runs):
            found[whose, kv] = speeds(programs[whose], model, kv, depth, arguments)
        rounds.append(found)
    return rounds


def references(kv: str, runs: Speeds) -> dict[str, Run]:
    """What a type is held against, by the name it has in the table."""
    if kv in STOCK_TYPES:
        return {"": ("stock", kv)}
    found: dict[str, Run] = {f" {other}": ("stock", other) for other in NEIGHBOURS if ("stock", other) in runs}
    sibling = SIBLINGS.get(kv, "")
    return found | ({f" our {sibling}": ("ours", sibling)} if ("ours", sibling) in runs else {})


def row(kv: str, depth: int, rounds: list[Speeds]) -> str:
    """One line of the table: our speed and its ratios to others in the same round."""
    against = references(kv, rounds[0])
    columns = [kv, str(depth)]
    for what in ("decode", "prefill"):
        columns.append(f"{statistics.median(found['ours', kv][what] for found in rounds):.1f}")
        columns.append(
            ", ".join(
                spread([found["ours", kv][what] / found[other][what] for found in rounds]) + name
                for name, other in against.items()
            )
        )
    return f"| {' | '.join(columns)} |"


def spread(values: list[float]) -> str:
    """Median and quartiles of ratios."""
    if len(values) < 2:
        return f"{values[0]:.2f}"
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{middle:.2f} ({low:.2f}–{high:.2f})"


def in_order(types: list[str]) -> list[Run]:
    """Both engines' runs of a type are neighbours: a shared machine drifts by more than a few percent in minutes."""
    neighbours = [(whose, kv) for kv in types for whose in ("stock", "ours") if whose == "ours" or kv in STOCK_TYPES]
    return neighbours if ("stock", "f16") in neighbours else [("stock", "f16"), *neighbours]


def print_table(programs: dict[str, Path], model: Path, arguments: argparse.Namespace) -> None:
    """Measure depth by depth, printing the rows of each when it is done."""
    print(f"\n{model.name}, {arguments.threads} threads, {arguments.rounds} rounds; tok/s ours, ratio to stock")
    print(f"ours: {json.loads((programs['ours'].parent / 'kvarn-build-info.json').read_text())['version']}\n")
    print("| type | depth | decode | against stock | prefill | against stock |\n|---|--:|--:|--:|--:|--:|")
    types = arguments.types.split(",")
    runs = in_order(types)
    for depth in map(int, arguments.depths.split(",")):
        rounds = measure(programs, model, arguments, runs, depth)
        for kv in types:
            print(row(kv, depth, rounds), flush=True)


def main() -> None:
    """Measure model by model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stock", type=Path)
    parser.add_argument("--model", action="append", help="`starter`, `gemma` or a file; both models when not given")
    parser.add_argument("--types", default="f16,q8_0,q4_0,tbq4_0,tcq4_0,planar3_0,tcq3_0")
    parser.add_argument("--depths", default="0,2048,4096,8192")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repetitions", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    programs = {"ours": package_folder("llama_cpp") / "bin" / "llama-bench", "stock": arguments.stock / "llama-bench"}
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.model or ("starter", "gemma"):
            print_table(programs, model_path(name, Path(folder)), arguments)


if __name__ == "__main__":
    main()
