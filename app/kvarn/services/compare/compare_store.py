"""Comparisons among the stored runs: typed both ways."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from kvarn.domain.compare.measured import Refusal, Sample, sample_key
from kvarn.domain.compare.setup import CompareSetup, setup_digest
from kvarn.domain.compare.steps import is_complete
from kvarn.domain.errors import ResultError
from kvarn.services.run_store import RunStore, StoredRun

KIND = "compare"
_SETUP = msgspec.json.Decoder(CompareSetup)
_SAMPLE: msgspec.json.Decoder[Sample] = msgspec.json.Decoder(Sample)


class CompareStore:
    """Every method raises ResultError when the results cannot be read or kept."""

    def __init__(self, runs: RunStore | None = None) -> None:
        self._runs = runs or RunStore()

    def begin(self, setup: CompareSetup, *, fresh: bool = False) -> StoredRun:
        """The newest run of this setup if it is unfinished or was refused something, unless `fresh`; else a new one.

        What was refused is tried again: the reason may be gone.
        """
        digest = setup_digest(setup)
        alike = [run for run in self._runs.runs() if (run.kind, run.digest) == (KIND, digest)]
        if alike and not fresh:
            run, samples = alike[-1], self.samples(alike[-1])
            refusals = [sample for sample in samples if isinstance(sample, Refusal)]
            for refusal in refusals:
                self._runs.forget(run.id, sample_key(refusal))
            if refusals or not is_complete(setup, samples):
                return run
        return self._runs.add_run(kind=KIND, digest=digest, title=setup.model.title, setup=msgspec.json.encode(setup))

    def setup(self, run: StoredRun) -> CompareSetup:
        """What was asked."""
        if run.kind != KIND:
            raise ResultError(f"Run {run.id} is a {run.kind} run, which this Kvarn cannot show.")
        return _decoded(run.setup, _SETUP, run)

    def samples(self, run: StoredRun) -> tuple[Sample, ...]:
        """What was found so far."""
        return tuple(_decoded(body, _SAMPLE, run) for body in self._runs.samples(run.id))

    def keep(self, run: StoredRun, sample: Sample) -> None:
        """Put one sample in its place."""
        self._runs.keep(run.id, sample_key(sample), msgspec.json.encode(sample))


T = TypeVar("T")


def _decoded(body: bytes, decoder: msgspec.json.Decoder[T], run: StoredRun) -> T:
    try:
        return decoder.decode(body)
    except msgspec.DecodeError as error:
        raise ResultError(f"Run {run.id} cannot be read: {error}. `kvarn runs delete {run.id}` removes it.") from error
