"""What a comparison has found so far: one value for each step, kept as it comes."""

from __future__ import annotations

import msgspec

from kvarn.domain.compare.kv_pair import KvPair


class SpeedSample(msgspec.Struct, frozen=True, kw_only=True, tag="speed"):
    """One run of one pair at one filled depth, in tokens per second. `again` marks the reference's second run."""

    round: int
    pair: KvPair
    depth: int
    again: bool = False
    decode_tok_per_s: float
    prefill_tok_per_s: float


class QualitySample(msgspec.Struct, frozen=True, kw_only=True, tag="quality"):
    """Sums over the scored tokens of one chunk, against the reference reading the same text.

    KLD in nats: sum of p·(ln p − ln q) over the vocabulary, p what the reference says.
    """

    pair: KvPair
    chunk: int
    tokens: int
    kld_sum: float
    kld_squares: float
    same_top: int
    """Tokens where both think the same token most likely."""


class Refusal(msgspec.Struct, frozen=True, kw_only=True, tag="refusal"):
    """Why a pair could not be measured at a depth, or (None) in quality."""

    pair: KvPair
    depth: int | None
    message: str


Sample = SpeedSample | QualitySample | Refusal


def sample_key(sample: Sample) -> str:
    """The step a sample belongs to: a step measured twice is one sample."""
    match sample:
        case SpeedSample():
            return f"speed {sample.round} {sample.depth} {sample.pair.name}{' again' * sample.again}"
        case QualitySample():
            return f"quality {sample.chunk} {sample.pair.name}"
        case Refusal():
            return f"refusal {sample.depth} {sample.pair.name}"
