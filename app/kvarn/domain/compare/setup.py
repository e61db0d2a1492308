"""What one comparison measures, down to everything that would change its figures: the same setup is the same run."""

from __future__ import annotations

import hashlib

import msgspec

from kvarn.domain.compare.kv_pair import KvPair

PROMPT_TOKENS, ANSWER_TOKENS = 256, 64
"""Tokens of the timed prompt and of the timed answer, each at the filled depth."""
QUALITY_CONTEXT, QUALITY_TOKENS = 2048, 8192


class ComparedModel(msgspec.Struct, frozen=True, kw_only=True):
    """Which file: its size and time stand for its content."""

    id: str
    title: str
    path: str
    file_bytes: int
    modified_ns: int


class QualitySetup(msgspec.Struct, frozen=True, kw_only=True):
    """A text read in `chunks` contexts of `context_tokens`; the second half of each is scored."""

    text_name: str
    text_path: str
    """Empty for the reference text that comes with Python."""
    text_sha256: str
    context_tokens: int
    chunks: int
    needs_bytes: int | None
    """Weights, and caches and compute of all pairs and the reference at once; None where the layout is not known."""


class CellSize(msgspec.Struct, frozen=True, kw_only=True):
    """The cache of one pair for a context that holds a depth and the timed prompt."""

    pair: KvPair
    depth: int
    context_tokens: int
    kv_bytes: int | None
    """None where the layout of the model is not understood."""
    weights_bytes: int | None
    needs_bytes: int | None
    """Weights, cache and compute together, to be held against free memory."""


class CompareSetup(msgspec.Struct, frozen=True, kw_only=True):
    """One comparison. `pairs` begins with the reference; a round measures each pair at each depth once."""

    model: ComparedModel
    engine_version: str
    engine_dir: str
    backends: tuple[str, ...]
    pairs: tuple[KvPair, ...]
    depths: tuple[int, ...]
    rounds: int
    threads: int | None
    gpu_layers: int | None
    quality: QualitySetup | None
    sizes: tuple[CellSize, ...]
    prompt_tokens: int = PROMPT_TOKENS
    answer_tokens: int = ANSWER_TOKENS

    def size(self, pair: KvPair, depth: int) -> CellSize | None:
        """The cache of that cell."""
        return next((size for size in self.sizes if (size.pair, size.depth) == (pair, depth)), None)


def setup_digest(setup: CompareSetup) -> str:
    """Equal for two setups exactly when their figures may be put together: 16 hex digits of SHA-256."""
    return hashlib.sha256(msgspec.json.encode(setup)).hexdigest()[:16]
