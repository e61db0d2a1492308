"""Speed of a trellis type beside the scalar type of its size, token by token in one process.

usage: kv_siblings.py [--model starter|gemma|FILE] [--pairs tcq4_0:tbq4_0,tcq3_0:planar3_0] [--depths 0,2048,4096,8192]
                      [--threads 2] [--tokens 64]

Runs of a whole program, one after another, cannot see a few percent on a machine whose speed changes from second to
second. Here one cache for each type is filled, and they decode a token or read a piece in turns at each depth; a ratio
is that of two neighbours: median and quartiles. Decode: over `--tokens` tokens from the depth on. Prefill: over six
pieces of 256 tokens at the depth.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import llama_cpp

from kvarn.domain.compare.kv_pair import KvPair, parse_pair
from kvarn.services.compare.text_reader import TextReader, Tokens, reference_text, tokenize
from kvarn.services.launch.bindings import load_bindings

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from real_models import model_path  # noqa: E402

PIECE, PIECES = 256, 6
"""Tokens of a timed prefill, and how many of them."""
WARM = 2
"""The first of each build the graph and fill the caches."""
PACKAGE = Path(llama_cpp.__file__).parent
Times = dict[KvPair, list[float]]


def timed(reader: TextReader, tokens: Tokens, start: int, *, wanted: bool) -> float:
    """Seconds to read these tokens."""
    began = time.perf_counter()
    reader.logits(tokens, start, wanted=wanted)
    return time.perf_counter() - began


def in_turns(readers: dict[KvPair, TextReader], turn: int) -> list[KvPair]:
    """Siblings stay neighbours, and each of them is first as often."""
    names = list(readers)
    twos = [names[at : at + 2][:: 1 if turn % 2 else -1] for at in range(0, len(names), 2)]
    return [name for two in twos[turn // 2 % len(twos) :] + twos[: turn // 2 % len(twos)] for name in two]


def fill(readers: dict[KvPair, TextReader], text: Tokens, start: int, end: int) -> None:
    """Read from one depth to the next, untimed."""
    for reader in readers.values():
        for at in range(start, end, PIECE):
            reader.logits(text[at : at + PIECE], at, wanted=False)


def timed_at(
    readers: dict[KvPair, TextReader], text: Tokens, depth: int, *, length: int, times: int, moves_on: bool
) -> Times:
    """Read `length` tokens in turns, so often, from the depth on or each time at it; then take them out again."""
    found: Times = {name: [] for name in readers}
    for step in range(times + WARM):
        at = depth + step * length if moves_on else depth
        for name in in_turns(readers, step):
            took = timed(readers[name], text[at : at + length], at, wanted=moves_on)
            if step >= WARM:
                found[name].append(took)
            if not moves_on:
                readers[name].forget_from(depth)
    for reader in readers.values():
        reader.forget_from(depth)
    return found


def ratio_text(own: list[float], sibling: list[float]) -> str:
    """Speed of one over the other, by neighbours: median and quartiles."""
    ratios = sorted(s / o for o, s in zip(own, sibling, strict=True))
    low, middle, high = statistics.quantiles(ratios, n=4)
    return f"{middle:.2f} ({low:.2f}–{high:.2f})"


def measure(readers: dict[KvPair, TextReader], text: Tokens, arguments: argparse.Namespace) -> None:
    """Walk through the text and print a line for each pair at each depth."""
    filled = 0
    for depth in sorted(map(int, arguments.depths.split(","))):
        fill(readers, text, filled, depth)
        filled = depth
        decoded = timed_at(readers, text, depth, length=1, times=arguments.tokens, moves_on=True)
        prefilled = timed_at(readers, text, depth, length=PIECE, times=PIECES, moves_on=False)
        for own, sibling in (map(parse_pair, pair.split(":")) for pair in arguments.pairs.split(",")):
            row = [own.name, sibling.name, f"{depth:,}"]
            row += [f"{1 / statistics.median(decoded[own]):.1f}", ratio_text(decoded[own], decoded[sibling])]
            row += [f"{PIECE / statistics.median(prefilled[own]):.0f}", ratio_text(prefilled[own], prefilled[sibling])]
            print(f"| {' | '.join(row)} |", flush=True)


def main() -> None:
    """One model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="starter")
    parser.add_argument("--pairs", default="tcq4_0:tbq4_0,tcq3_0:planar3_0")
    parser.add_argument("--depths", default="0,2048,4096,8192")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=64)
    arguments = parser.parse_args()
    if any(int(depth) % PIECE for depth in arguments.depths.split(",")):
        raise SystemExit(f"kv_siblings: depths are multiples of {PIECE}")
    bindings = load_bindings(PACKAGE)
    quiet = bindings.llama_log_callback(lambda _level, _text, _data: None)
    bindings.llama_log_set(quiet, None)
    bindings.llama_backend_init()
    with tempfile.TemporaryDirectory() as folder:
        print_table(bindings, arguments, Path(folder))


def print_table(bindings: Any, arguments: argparse.Namespace, folder: Path) -> None:
    """Load, measure, print."""
    name = arguments.model
    path = model_path(name, folder)
    model = bindings.llama_model_load_from_file(str(path).encode(), bindings.llama_model_default_params())
    if not model:
        raise SystemExit(f"kv_siblings: {path} cannot be loaded")
    context = max(map(int, arguments.depths.split(","))) + 2 * PIECE
    names = [parse_pair(word) for pair in arguments.pairs.split(",") for word in pair.split(":")]
    readers = {
        pair: TextReader(bindings, PACKAGE, model, pair, context, arguments.threads, PIECE)
        for pair in dict.fromkeys(names)
    }
    version = json.loads((PACKAGE / "bin" / "kvarn-build-info.json").read_text())["version"]
    print(f"{path.name}, {arguments.threads} threads, {version}; tok/s, and speed over the sibling's\n")
    print("| type | beside | depth | decode | ratio | prefill | ratio |\n|---|---|--:|--:|--:|--:|--:|", flush=True)
    measure(readers, tokenize(bindings, model, reference_text())[:context], arguments)


if __name__ == "__main__":
    main()
