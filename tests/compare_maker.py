"""A small comparison to test with."""

from __future__ import annotations

from kvarn.domain.compare.kv_pair import REFERENCE, KvPair
from kvarn.domain.compare.measured import QualitySample, SpeedSample
from kvarn.domain.compare.setup import CellSize, ComparedModel, CompareSetup, QualitySetup

Q8, MIXED = KvPair("q8_0", "q8_0"), KvPair("q8_0", "tbq4_0")
QUALITY = QualitySetup(
    text_name="a text", text_path="", text_sha256="0", context_tokens=256, chunks=2, needs_bytes=9000
)


def make_setup(**changes) -> CompareSetup:
    """Two pairs beside the reference at two depths, two rounds, two chunks of text."""
    pairs, depths = changes.pop("pairs", (REFERENCE, Q8, MIXED)), changes.pop("depths", (0, 512))
    sizes = tuple(
        CellSize(
            pair=pair,
            depth=depth,
            context_tokens=depth + 256,
            kv_bytes=1000 if pair == REFERENCE else 500,
            weights_bytes=3000,
            needs_bytes=5000,
        )
        for pair in pairs
        for depth in depths
    )
    given = {
        "model": ComparedModel(id="m", title="M", path="/m.gguf", file_bytes=1, modified_ns=1),
        "engine_version": "1",
        "engine_dir": "/engine",
        "backends": ("CPU",),
        "pairs": pairs,
        "depths": depths,
        "rounds": 2,
        "threads": None,
        "gpu_layers": None,
        "quality": QUALITY,
        "sizes": sizes,
    }
    return CompareSetup(**(given | changes))


def speed(pair: KvPair, decode: float, *, number: int = 0, depth: int = 0, again: bool = False) -> SpeedSample:
    """One run; its prefill is ten times its decode."""
    return SpeedSample(
        round=number, pair=pair, depth=depth, again=again, decode_tok_per_s=decode, prefill_tok_per_s=10 * decode
    )


def quality(pair: KvPair, chunk: int, klds: list[float], same: int) -> QualitySample:
    """The sums of these tokens."""
    return QualitySample(
        pair=pair,
        chunk=chunk,
        tokens=len(klds),
        kld_sum=sum(klds),
        kld_squares=sum(k * k for k in klds),
        same_top=same,
    )
