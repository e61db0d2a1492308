"""Measures what a comparison still lacks, one step after another; every figure is kept before the next step."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from kvarn.domain.compare.kv_pair import KvPair
from kvarn.domain.compare.measured import QualitySample, Refusal, Sample, SpeedSample, sample_key
from kvarn.domain.compare.pace import ReadingPace, SpeedPace
from kvarn.domain.compare.setup import CompareSetup
from kvarn.domain.compare.steps import SpeedStep, quality_pairs, remaining_chunks, remaining_speed, speed_steps
from kvarn.domain.errors import EngineCallError
from kvarn.domain.quantity_text import bytes_text
from kvarn.services.clock import Clock
from kvarn.services.compare.bench_run import run_bench
from kvarn.services.compare.quality_run import run_quality
from kvarn.services.compare.quality_worker import Reading
from kvarn.services.compare.text_reader import BATCH_TOKENS


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """Where the comparison stands."""

    done: int
    total: int
    sample: Sample | None
    """What the last step found; None for a sign of life within a step."""
    reading: Reading | None = None
    left_s: float | None
    """Of this part, speed or quality; None until it can be told."""


class ComparisonRun:
    """One comparison, measured in the calling thread."""

    def __init__(
        self,
        setup: CompareSetup,
        samples: tuple[Sample, ...],
        *,
        keep: Callable[[Sample], None],
        on_progress: Callable[[Progress], None],
        cancelled: Callable[[], bool],
        free_bytes: Callable[[], int | None],
        clock: Clock,
    ) -> None:
        self._setup = setup
        self._samples = {sample_key(sample): sample for sample in samples}
        self._keep, self._on_progress = keep, on_progress
        self._cancelled, self._free_bytes, self._clock = cancelled, free_bytes, clock
        chunks = setup.quality.chunks if setup.quality else 0
        self._total = sum(1 for _ in speed_steps(setup)) + chunks
        self._speed_pace = SpeedPace()
        self._reading_pace = ReadingPace(0, 0.0)

    @property
    def samples(self) -> tuple[Sample, ...]:
        """Everything found so far."""
        return tuple(self._samples.values())

    def measure(self) -> None:
        """Until nothing is left. A pair that fails is a Refusal, not an end.

        Raises Cancelled; EngineCallError when quality cannot be measured at all; ResultError.
        """
        while steps := remaining_speed(self._setup, self.samples):
            began_s = self._clock.now()
            sample = self._speed(steps[0])
            self._speed_pace.took(steps[0], self._clock.now() - began_s)
            self._found(sample)
        for pairs in self._quality_groups():
            self._read_text(pairs)

    def _speed(self, step: SpeedStep) -> SpeedSample | Refusal:
        unfit = self._does_not_fit(step.pair, step.depth)
        if unfit:
            return Refusal(pair=step.pair, depth=step.depth, message=unfit)
        try:
            return run_bench(self._setup, step, self._cancelled)
        except EngineCallError as error:
            last = error.detail.splitlines()[-1:]
            return Refusal(pair=step.pair, depth=step.depth, message=" ".join([str(error), *last]))

    def _does_not_fit(self, pair: KvPair, depth: int) -> str:
        size, free = self._setup.size(pair, depth), self._free_bytes()
        needs = size.needs_bytes if size else None
        if needs is None or free is None or needs <= free:
            return ""
        return f"does not fit: needs {bytes_text(needs)}, {bytes_text(free)} are free"

    def _quality_groups(self) -> list[tuple[KvPair, ...]]:
        """All pairs side by side where memory allows, else one after another, each beside the reference."""
        pairs, quality, free = quality_pairs(self._setup, self.samples), self._setup.quality, self._free_bytes()
        needs = quality.needs_bytes if quality else None
        together = needs is None or free is None or needs <= free
        return [pairs] if together else [(pair,) for pair in pairs]

    def _read_text(self, pairs: tuple[KvPair, ...]) -> None:
        chunks = remaining_chunks(self._setup, self.samples, pairs)
        if not chunks:
            return
        assert self._setup.quality is not None
        pieces = len(chunks) * self._setup.quality.context_tokens // BATCH_TOKENS
        self._reading_pace = ReadingPace(pieces, self._clock.now())
        run_quality(
            self._setup,
            chunks,
            pairs,
            on_sample=self._found,
            on_reading=self._read,
            cancelled=self._cancelled,
        )

    def _found(self, sample: SpeedSample | QualitySample | Refusal) -> None:
        self._keep(sample)
        self._samples[sample_key(sample)] = sample
        self._tell(sample)

    def _read(self, reading: Reading) -> None:
        self._reading_pace.read_one()
        self._tell(None, reading)

    def _tell(self, sample: Sample | None, reading: Reading | None = None) -> None:
        steps, chunks = remaining_speed(self._setup, self.samples), remaining_chunks(self._setup, self.samples)
        left_s = self._speed_pace.left_s(steps) if steps else self._reading_pace.left_s(self._clock.now())
        done = self._total - len(steps) - len(chunks)
        self._on_progress(Progress(done=done, total=self._total, sample=sample, reading=reading, left_s=left_s))
