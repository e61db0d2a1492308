"""What a cache type costs in quality: how far its next-token distributions are from those of an f16 cache.

usage: kv_quality.py [--model starter|gemma|FILE ...] [--types q8_0,q8_0/planar3_0,…] [--contexts 2048,8192]
                     [--tokens 8192] [--text FILE] [--threads 2]

The figures of `llama-perplexity --kl-divergence`: at least `--tokens` of text are read, and the second half of each
context is scored. That program keeps the logits of a whole context, 17 GB for Gemma at 16,384; here one context for
each cache type reads the text side by side, 256 tokens at a time, and f16 against itself is the floor. Default text:
the Python language reference that every CPython carries (`pydoc_data.topics`).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

import llama_cpp
import numpy as np

from kvarn.domain.compare.divergence import Logits, divergences, same_first_choice
from kvarn.domain.compare.kv_pair import REFERENCE, parse_pair
from kvarn.services.compare.text_reader import TextReader, Tokens, first_token, reference_text, tokenize
from kvarn.services.launch.bindings import load_bindings

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from real_models import model_path  # noqa: E402

PACKAGE = Path(llama_cpp.__file__).parent
TYPES = "f16,q8_0,q4_0,tbq4_0,tcq4_0,q8_0/planar3_0,planar3_0,tcq3_0"
LONG = {"starter": 8192, "gemma": 16384}
BATCH = 256
"""Tokens between two comparisons: the logits of one batch are all that is kept."""


class Score:
    """What is known of the scored tokens of one cache type against f16."""

    def __init__(self) -> None:
        self._divergences: list[np.ndarray] = []
        self._agreements: list[np.ndarray] = []

    def add(self, base: Logits, other: Logits) -> None:
        """Logits of the same tokens; base is what f16 says."""
        self._divergences.append(divergences(base, other))
        self._agreements.append(same_first_choice(base, other))

    def cells(self) -> list[str]:
        """Mean KLD and its standard error, 99.9 % quantile, share of equal first choices and its standard error."""
        kld, same = np.concatenate(self._divergences), np.concatenate(self._agreements)
        error, share = kld.std(ddof=1) / len(kld) ** 0.5, same.mean()
        return [
            f"{kld.mean():.4f} ± {error:.4f}",
            f"{np.quantile(kld, 0.999):.3f}",
            f"{100 * share:.1f} ± {100 * (share * (1 - share) / len(same)) ** 0.5:.1f}",
        ]


def score(
    readers: dict[str, TextReader], base: TextReader, tokens: Tokens, context: int, bos: int | None
) -> dict[str, Score]:
    """Read chunk by chunk of `context` tokens, all readers in step, and score the second half of each but its last."""
    scores = {kv: Score() for kv in readers}
    for chunk in tokens.reshape(-1, context):
        chunk[0] = chunk[0] if bos is None else bos
        for reader in (base, *readers.values()):
            reader.restart()
        for start in range(0, context, BATCH):
            part = chunk[start : start + BATCH]
            keep = slice(0, len(part) - (start + BATCH >= context))
            wanted = start >= context // 2
            told = base.logits(part, start, wanted=wanted)[keep].copy()
            for kv, reader in readers.items():
                logits = reader.logits(part, start, wanted=wanted)
                if wanted:
                    scores[kv].add(told, logits[keep])
    return scores


def print_table(bindings: Any, model: Any, name: str, context: int, arguments: argparse.Namespace) -> None:
    """One table for one context."""
    chunks = -(-arguments.tokens // context)
    text = arguments.text.read_text("utf-8") if arguments.text else reference_text()
    tokens = tokenize(bindings, model, text)
    if len(tokens) < chunks * context:
        raise SystemExit(f"kv_quality: the text has {len(tokens)} tokens, {chunks} contexts of {context} need more")

    def reader(kv: str) -> TextReader:
        return TextReader(bindings, PACKAGE, model, parse_pair(kv), context, arguments.threads, BATCH)

    readers, base = {kv: reader(kv) for kv in arguments.types.split(",")}, reader(REFERENCE.name)
    bos = first_token(bindings, model)
    scores = score(readers, base, tokens[: chunks * context].copy(), context, bos)
    print(f"\n{name}, context {context}, {chunks * context} tokens, {chunks * (context // 2 - 1)} scored\n")
    print("| K / V | mean KLD | 99.9 % KLD | same first choice, % |\n|---|--:|--:|--:|")
    for kv, of in scores.items():
        print(f"| {kv} | {' | '.join(of.cells())} |", flush=True)
    for one in (base, *readers.values()):
        one.close()


def main() -> None:
    """Measure model by model, context by context."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="append")
    parser.add_argument("--types", default=TYPES)
    parser.add_argument("--contexts")
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--text", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    bindings = load_bindings(PACKAGE)
    quiet = bindings.llama_log_callback(lambda _level, _text, _data: None)
    bindings.llama_log_set(quiet, None)
    bindings.llama_backend_init()
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.model or ("starter", "gemma"):
            path = model_path(name, Path(folder))
            model = bindings.llama_model_load_from_file(str(path).encode(), bindings.llama_model_default_params())
            if not model:
                raise SystemExit(f"kv_quality: {path} cannot be loaded")
            contexts = arguments.contexts or f"2048,{LONG.get(name, 8192)}"
            for context in map(int, contexts.split(",")):
                print_table(bindings, model, path.name, context, arguments)
            bindings.llama_model_free(model)


if __name__ == "__main__":
    main()
