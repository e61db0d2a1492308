"""The order of a comparison: round by round, so that a drift of the machine meets every pair alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from kvarn.domain.compare.kv_pair import REFERENCE, KvPair
from kvarn.domain.compare.measured import QualitySample, Refusal, Sample, SpeedSample
from kvarn.domain.compare.setup import CompareSetup


class SpeedStep(msgspec.Struct, frozen=True):
    """One run of the engine's benchmark."""

    round: int
    depth: int
    pair: KvPair
    again: bool = False


def speed_steps(setup: CompareSetup) -> Iterator[SpeedStep]:
    """All runs in order. The reference runs first and last at each depth, which shows how far equal runs differ;
    every other round goes backwards, so that being first or last favours nobody."""
    for number in range(setup.rounds):
        for depth in setup.depths:
            once = [SpeedStep(number, depth, pair) for pair in setup.pairs]
            steps = [*once, SpeedStep(number, depth, REFERENCE, again=True)]
            yield from reversed(steps) if number % 2 else steps


def remaining_speed(setup: CompareSetup, samples: Iterable[Sample]) -> tuple[SpeedStep, ...]:
    """The runs without a sample, less those of refused cells."""
    done: set[SpeedStep] = set()
    refused: set[tuple[KvPair, int | None]] = set()
    for sample in samples:
        if isinstance(sample, SpeedSample):
            done.add(SpeedStep(sample.round, sample.depth, sample.pair, sample.again))
        elif isinstance(sample, Refusal):
            refused.add((sample.pair, sample.depth))
    return tuple(s for s in speed_steps(setup) if s not in done and (s.pair, s.depth) not in refused)


def remaining_chunks(
    setup: CompareSetup, samples: Iterable[Sample], among: tuple[KvPair, ...] | None = None
) -> tuple[int, ...]:
    """Chunks of the text that some pair, not refused, has still to read: any pair, or one of these."""
    if setup.quality is None:
        return ()
    kept = list(samples)
    done = {(sample.pair, sample.chunk) for sample in kept if isinstance(sample, QualitySample)}
    pairs = [pair for pair in quality_pairs(setup, kept) if among is None or pair in among]
    return tuple(c for c in range(setup.quality.chunks) if any((pair, c) not in done for pair in pairs))


def quality_pairs(setup: CompareSetup, samples: Iterable[Sample]) -> tuple[KvPair, ...]:
    """The pairs that read the text; the reference among them, against itself, is the floor."""
    refused = {sample.pair for sample in samples if isinstance(sample, Refusal) and sample.depth is None}
    return tuple(pair for pair in setup.pairs if pair not in refused)


def is_complete(setup: CompareSetup, samples: Iterable[Sample]) -> bool:
    """Nothing is left to measure."""
    kept = list(samples)
    return not remaining_speed(setup, kept) and not remaining_chunks(setup, kept)
