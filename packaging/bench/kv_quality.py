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
import ctypes
import sys
import tempfile
from pathlib import Path

import llama_cpp
import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from real_models import join_gemma, starter_path  # noqa: E402

TYPES = "f16,q8_0,q4_0,tbq4_0,tcq4_0,q8_0/planar3_0,planar3_0,tcq3_0"
LONG = {"starter": 8192, "gemma": 16384}
BATCH = 256
"""Tokens between two comparisons: the logits of one batch are all that is kept."""


def type_id(name: str) -> int:
    """ggml's number of a cache type, from the bindings' constants."""
    found = getattr(llama_cpp, f"GGML_TYPE_{name.upper()}", None)
    if found is None:
        raise SystemExit(f"kv_quality: this engine has no cache type {name}")
    return int(found)


def reference_text() -> str:
    """The Python language reference, topic by topic."""
    from pydoc_data.topics import topics

    return "\n\n".join(topics[name] for name in sorted(topics))


class Reader:
    """One context with one pair of cache types over a shared model."""

    def __init__(self, model: ctypes.c_void_p, kv: str, context: int, threads: int) -> None:
        k, _, v = kv.partition("/")
        params = llama_cpp.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch, params.n_seq_max = context, BATCH, BATCH, 1
        params.n_threads = params.n_threads_batch = threads
        params.type_k, params.type_v, params.flash_attn_type = type_id(k), type_id(v or k), 1
        self._vocab = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))
        self._context = llama_cpp.llama_init_from_model(model, params)
        if not self._context:
            raise SystemExit(f"kv_quality: the engine refuses {kv} for this model")

    def restart(self) -> None:
        """Forget the text."""
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self._context), True)

    def logits(self, tokens: np.ndarray, start: int, *, wanted: bool) -> np.ndarray:
        """Read tokens at positions from `start`; logits of each, (tokens, vocabulary) float32; none unless wanted."""
        batch = llama_cpp.llama_batch_init(len(tokens), 0, 1)
        batch.n_tokens = len(tokens)
        for at, token in enumerate(tokens.tolist()):
            batch.token[at], batch.pos[at], batch.n_seq_id[at], batch.logits[at] = token, start + at, 1, wanted
            batch.seq_id[at][0] = 0
        failed = llama_cpp.llama_decode(self._context, batch)
        llama_cpp.llama_batch_free(batch)
        if failed:
            raise SystemExit(f"kv_quality: decoding failed with {failed}")
        if not wanted:
            return np.empty((0, self._vocab), np.float32)
        shape = (len(tokens), self._vocab)
        return np.ctypeslib.as_array(llama_cpp.llama_get_logits(self._context), shape=shape)

    def close(self) -> None:
        """Free the cache."""
        llama_cpp.llama_free(self._context)


class Score:
    """Sums over scored tokens of one cache type against f16."""

    def __init__(self) -> None:
        self._divergences: list[np.ndarray] = []
        self._agreements: list[np.ndarray] = []

    def add(self, base: np.ndarray, other: np.ndarray) -> None:
        """Both of shape (tokens, vocabulary), logits; base is what f16 says."""
        log_p, log_q = log_softmax(base), log_softmax(other)
        self._divergences.append(np.einsum("tv,tv->t", np.exp(log_p), log_p - log_q, dtype=np.float64))
        self._agreements.append(base.argmax(axis=1) == other.argmax(axis=1))

    def cells(self) -> list[str]:
        """Mean KLD and its standard error, 99.9 % quantile, share of equal first choices and its standard error."""
        kld, same = np.concatenate(self._divergences), np.concatenate(self._agreements)
        error, share = kld.std(ddof=1) / len(kld) ** 0.5, same.mean()
        return [
            f"{kld.mean():.4f} ± {error:.4f}",
            f"{np.quantile(kld, 0.999):.3f}",
            f"{100 * share:.1f} ± {100 * (share * (1 - share) / len(same)) ** 0.5:.1f}",
        ]


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Along the vocabulary, in float32 with the largest taken off first."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True, dtype=np.float64)).astype(np.float32)


def score(readers: dict[str, Reader], base: Reader, tokens: np.ndarray, context: int, bos: int) -> dict[str, Score]:
    """Read chunk by chunk of `context` tokens, all readers in step, and score the second half of each but its last."""
    scores = {kv: Score() for kv in readers}
    for chunk in tokens.reshape(-1, context):
        chunk[0] = bos if bos >= 0 else chunk[0]
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


def tokenize(model: ctypes.c_void_p, text: str) -> np.ndarray:
    """The whole text, shape (tokens,)."""
    raw, vocab = text.encode(), llama_cpp.llama_model_get_vocab(model)
    room = (llama_cpp.llama_token * (len(raw) + 1))()
    count = llama_cpp.llama_tokenize(vocab, raw, len(raw), room, len(room), True, False)
    return np.array(room[:count])


def print_table(model: ctypes.c_void_p, name: str, context: int, arguments: argparse.Namespace) -> None:
    """One table for one context."""
    vocab = llama_cpp.llama_model_get_vocab(model)
    bos = llama_cpp.llama_vocab_bos(vocab) if llama_cpp.llama_vocab_get_add_bos(vocab) else -1
    chunks = -(-arguments.tokens // context)
    tokens = tokenize(model, arguments.text.read_text("utf-8") if arguments.text else reference_text())
    if len(tokens) < chunks * context:
        raise SystemExit(f"kv_quality: the text has {len(tokens)} tokens, {chunks} contexts of {context} need more")
    readers = {kv: Reader(model, kv, context, arguments.threads) for kv in arguments.types.split(",")}
    base = Reader(model, "f16", context, arguments.threads)
    scores = score(readers, base, tokens[: chunks * context].copy(), context, bos)
    print(f"\n{name}, context {context}, {chunks * context} tokens, {chunks * (context // 2 - 1)} scored\n")
    print("| K / V | mean KLD | 99.9 % KLD | same first choice, % |\n|---|--:|--:|--:|")
    for kv, of in scores.items():
        print(f"| {kv} | {' | '.join(of.cells())} |", flush=True)
    for reader in (base, *readers.values()):
        reader.close()


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
    llama_cpp.llama_log_set(quiet, None)
    llama_cpp.llama_backend_init()
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.model or ("starter", "gemma"):
            path = starter_path() if name == "starter" else join_gemma(Path(folder)) if name == "gemma" else Path(name)
            model = llama_cpp.llama_model_load_from_file(str(path).encode(), llama_cpp.llama_model_default_params())
            if not model:
                raise SystemExit(f"kv_quality: {path} cannot be loaded")
            contexts = arguments.contexts or f"2048,{LONG.get(name, 8192)}"
            for context in map(int, contexts.split(",")):
                print_table(model, path.name, context, arguments)
            llama_cpp.llama_model_free(model)


@llama_cpp.llama_log_callback
def quiet(_level: int, _text: bytes, _data: ctypes.c_void_p) -> None:
    """Nothing of the engine's log belongs in a table."""


if __name__ == "__main__":
    main()
