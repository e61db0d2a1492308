"""What `--kv-pad` costs and saves: decode speed at several depths under two paddings, in turns.

usage: kv_pad.py [--model GGUF] [--pads 256,auto] [--depths 600,4650,8300] [--tokens 128] [--rounds 9] [--threads 2]
                 [--engine BIN_DIR] [--server-args "…"]

One server for each padding, both up at once with the same prompt in their cache; each round lets both decode the same
tokens from there, the order swapped each round. A ratio is second / first of one round, so that a drift of the machine
cancels. Graph builds are read from /metrics. Prints a Markdown table of medians with quartiles.
"""

from __future__ import annotations

import argparse
import shlex
import statistics
from contextlib import AbstractContextManager
from pathlib import Path

from served_engine import ServedEngine, own_programs, served, starter_path

BUILT = "kvarn:graph_built_total"


def server(arguments: argparse.Namespace, pad: str) -> AbstractContextManager[ServedEngine]:
    """A server with that padding."""
    room = max(map(int, arguments.depths.split(","))) + arguments.tokens + 64
    options = ("-np", "1", "-c", str(room), "-t", str(arguments.threads), "--kv-pad", pad)
    return served(arguments.engine, arguments.model, *options, *shlex.split(arguments.server_args))


def decode(engine: ServedEngine, depth: int, tokens: int) -> tuple[float, int]:
    """Tokens per second of a greedy answer after `depth` cached tokens, and the graphs built for it."""
    before = built(engine)
    timings = engine.answer([1000 + i % 997 for i in range(depth)], tokens, cache_prompt=True)
    return (timings["predicted_n"] - 1) / timings["predicted_ms"] * 1000, built(engine) - before


def built(engine: ServedEngine) -> int:
    """Graphs built since the server began."""
    return int(engine.metrics(BUILT)[BUILT])


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
    arguments.model = arguments.model or starter_path()
    arguments.engine = arguments.engine or own_programs()
    first, second = arguments.pads.split(",")
    print(f"{arguments.model.name}, {arguments.tokens} tokens, {arguments.rounds} rounds, {arguments.server_args}\n")
    print(f"| depth | tok/s {first} | tok/s {second} | {second} / {first} | builds {first} | builds {second} |")
    print("|--:|--:|--:|--:|--:|--:|")
    with server(arguments, first) as one, server(arguments, second) as other:
        for depth in map(int, arguments.depths.split(",")):
            print(row(one, other, depth, arguments), flush=True)


def row(one: ServedEngine, other: ServedEngine, depth: int, arguments: argparse.Namespace) -> str:
    """One line of the table; a first decode on each fills the caches and is not counted."""
    for engine in (one, other):
        decode(engine, depth, arguments.tokens)
    speeds: dict[ServedEngine, list[float]] = {one: [], other: []}
    builds: dict[ServedEngine, int] = {}
    for number in range(arguments.rounds):
        for engine in (one, other) if number % 2 else (other, one):
            speed, builds[engine] = decode(engine, depth, arguments.tokens)
            speeds[engine].append(speed)
    ratios = [b / a for a, b in zip(speeds[one], speeds[other], strict=True)]
    middle = [f"{statistics.median(speeds[engine]):.1f}" for engine in (one, other)]
    return f"| {depth} | {' | '.join(middle)} | {spread(ratios)} | {builds[one]} | {builds[other]} |"


if __name__ == "__main__":
    main()
