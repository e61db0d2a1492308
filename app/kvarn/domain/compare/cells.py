"""From samples to the table: speed, memory and quality of each pair at each depth, beside the noise floor."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable

import msgspec

from kvarn.domain.compare.kv_pair import REFERENCE, KvPair
from kvarn.domain.compare.measured import QualitySample, Refusal, Sample, SpeedSample
from kvarn.domain.compare.setup import CompareSetup


class Spread(msgspec.Struct, frozen=True):
    """Median, smallest and largest of the rounds."""

    median: float
    low: float
    high: float


class Quality(msgspec.Struct, frozen=True):
    """Mean KLD in nats and its standard error; share of equal first choices, 0 to 1, and its standard error."""

    kld_mean: float
    kld_se: float | None
    """None for a single token."""
    top1: float
    top1_se: float
    tokens: int


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One pair at one depth. None is not measured, with the reason in `problem` where it was refused."""

    pair: KvPair
    depth: int
    context_tokens: int | None
    kv_bytes: int | None
    decode: Spread | None
    prefill: Spread | None
    decode_ratio: Spread | None
    """Times the reference's speed in the same round; None for the reference."""
    prefill_ratio: Spread | None
    quality: Quality | None
    problem: str


class Floor(msgspec.Struct, frozen=True):
    """How far the reference is from itself."""

    quality: Quality | None
    decode_ratio: Spread | None
    """Second run over first, in the same round and at the same depth."""
    prefill_ratio: Spread | None
    runs: int = 0
    """Pairs of equal runs behind the ratios."""


class Comparison(msgspec.Struct, frozen=True):
    """The table so far."""

    cells: tuple[Cell, ...]
    floor: Floor


def spread(values: Iterable[float]) -> Spread | None:
    """None without a value."""
    kept = sorted(values)
    return Spread(statistics.median(kept), kept[0], kept[-1]) if kept else None


def compare(setup: CompareSetup, samples: Iterable[Sample]) -> Comparison:
    """Everything that can be said from these samples, complete or not."""
    found = _Samples(samples)
    cells = tuple(_cell(setup, found, pair, depth) for depth in setup.depths for pair in setup.pairs)
    decode, prefill = (found.equal_runs(what, setup.depths) for what in ("decode", "prefill"))
    floor = Floor(found.quality(REFERENCE), spread(decode), spread(prefill), len(decode))
    return Comparison(cells, floor)


def _cell(setup: CompareSetup, found: _Samples, pair: KvPair, depth: int) -> Cell:
    size = setup.size(pair, depth)
    is_reference = pair == REFERENCE
    return Cell(
        pair=pair,
        depth=depth,
        context_tokens=size.context_tokens if size else None,
        kv_bytes=size.kv_bytes if size else None,
        decode=spread(found.speeds("decode", pair, depth).values()),
        prefill=spread(found.speeds("prefill", pair, depth).values()),
        decode_ratio=None if is_reference else found.ratio("decode", pair, depth),
        prefill_ratio=None if is_reference else found.ratio("prefill", pair, depth),
        quality=found.quality(pair),
        problem=found.refusals.get((pair, depth)) or found.refusals.get((pair, None)) or "",
    )


class _Samples:
    """The samples by kind."""

    def __init__(self, samples: Iterable[Sample]) -> None:
        kept = list(samples)
        self._speeds = [sample for sample in kept if isinstance(sample, SpeedSample)]
        self._quality = [sample for sample in kept if isinstance(sample, QualitySample)]
        self.refusals = {(s.pair, s.depth): s.message for s in kept if isinstance(s, Refusal)}

    def speeds(self, what: str, pair: KvPair, depth: int, *, again: bool = False) -> dict[int, float]:
        """Tokens per second by round."""
        return {
            s.round: s.decode_tok_per_s if what == "decode" else s.prefill_tok_per_s
            for s in self._speeds
            if (s.pair, s.depth, s.again) == (pair, depth, again)
        }

    def ratio(self, what: str, pair: KvPair, depth: int) -> Spread | None:
        """Times the reference, over rounds that have both. The reference's two runs stand on either side of the
        others, so their mean is what the machine gave in between."""
        first, last = (self.speeds(what, REFERENCE, depth, again=again) for again in (False, True))
        base = {number: (first[number] + last.get(number, first[number])) / 2 for number in first}
        return spread(v / base[n] for n, v in self.speeds(what, pair, depth).items() if base.get(n))

    def equal_runs(self, what: str, depths: Iterable[int]) -> list[float]:
        """The reference's second run over its first."""
        ratios: list[float] = []
        for depth in depths:
            first, last = (self.speeds(what, REFERENCE, depth, again=again) for again in (False, True))
            ratios += [last[number] / value for number, value in first.items() if value and number in last]
        return ratios

    def quality(self, pair: KvPair) -> Quality | None:
        """All chunks together."""
        parts = [sample for sample in self._quality if sample.pair == pair]
        count = sum(part.tokens for part in parts)
        if not count:
            return None
        mean = sum(part.kld_sum for part in parts) / count
        squares = sum(part.kld_squares for part in parts)
        share = sum(part.same_top for part in parts) / count
        error = math.sqrt(max(0.0, squares / count - mean * mean) / (count - 1)) if count > 1 else None
        return Quality(mean, error, share, math.sqrt(share * (1 - share) / count), count)
