"""What `kvarn compare` and `kvarn runs show` say: lines while it measures, a table and a JSON document after."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import typer

from kvarn.domain.compare.cells import Cell, Comparison, Quality, Spread, compare
from kvarn.domain.compare.kv_pair import REFERENCE
from kvarn.domain.compare.measured import QualitySample, Refusal, Sample, SpeedSample
from kvarn.domain.compare.setup import CompareSetup
from kvarn.domain.compare.steps import is_complete
from kvarn.domain.compare.verdict import verdict
from kvarn.domain.launch.launch_plan import PlanProblem
from kvarn.domain.quantity_text import ABSENT, bytes_text
from kvarn.domain.time_text import duration_text, rate_text
from kvarn.services.compare.comparison import Progress
from kvarn.services.run_store import StoredRun

_BUSY_SHARE = 0.15
_CLEAR = "\r\x1b[K"


class CompareProgress:
    """A line on stderr for each figure; on a terminal a last line that moves."""

    def __init__(self) -> None:
        self._moves = sys.stderr.isatty()

    def begin(
        self, run: StoredRun, setup: CompareSetup, warnings: Iterable[PlanProblem], *, found: int, busy: float
    ) -> None:
        """What is about to be measured, and what may spoil it."""
        names = ", ".join(pair.name for pair in setup.pairs)
        going_on = f", going on after {found} figure{'s' * (found != 1)}" if found else ""
        self._line(f"Run {run.id}: {setup.model.title} with {names}{going_on}.")
        for problem in warnings:
            self._line(f"! {problem.message} {problem.remedy}")
        if busy > _BUSY_SHARE:
            self._line(f"! Other programs use {busy * 100:.0f} % of this machine; speeds will swing until they end.")

    def show(self, progress: Progress) -> None:
        """One step further."""
        if progress.sample is not None:
            self._line(f"[{progress.done:>3}/{progress.total}] {sample_text(progress.sample)}")
        if self._moves:
            what = "quality" if progress.reading else "speed"
            left = f"about {duration_text(progress.left_s)} of {what} left" if progress.left_s is not None else what
            sys.stderr.write(f"{_CLEAR}  {progress.done} of {progress.total} steps · {left}")
            sys.stderr.flush()

    def end(self) -> None:
        """Take the moving line away."""
        if self._moves:
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()

    def _line(self, text: str) -> None:
        self.end()
        typer.echo(text, err=True)


def sample_text(sample: Sample) -> str:
    """`tbq4_0 at 4,096: decode 80.2, prefill 191 tok/s`."""
    match sample:
        case SpeedSample():
            again = " again" if sample.again else ""
            speeds = f"decode {rate_text(sample.decode_tok_per_s)}, prefill {rate_text(sample.prefill_tok_per_s)} tok/s"
            return f"{sample.pair.name}{again} at {sample.depth:,}: {speeds}"
        case QualitySample():
            mean, share = sample.kld_sum / sample.tokens, sample.same_top / sample.tokens
            return (
                f"{sample.pair.name} on part {sample.chunk + 1} of the text: KLD {mean:.4f}, top-1 {share * 100:.1f} %"
            )
        case Refusal():
            where = "quality" if sample.depth is None else f"depth {sample.depth:,}"
            return f"{sample.pair.name}, {where}: {sample.message}"


def comparison_document(run: StoredRun, setup: CompareSetup, samples: Iterable[Sample]) -> dict[str, Any]:
    """The `--json` document; names are a contract."""
    kept = list(samples)
    comparison = compare(setup, kept)
    floor = comparison.floor
    return {
        "run": run.id,
        "started": run.started,
        "complete": is_complete(setup, kept),
        "model": msgspec.to_builtins(setup.model),
        "engine": {"version": setup.engine_version, "backends": setup.backends},
        "reference": REFERENCE.name,
        "rounds": setup.rounds,
        "threads": setup.threads,
        "gpu_layers": setup.gpu_layers,
        "prompt_tokens": setup.prompt_tokens,
        "answer_tokens": setup.answer_tokens,
        "quality": msgspec.to_builtins(setup.quality),
        "floor": {
            "kld_mean": floor.quality.kld_mean if floor.quality else None,
            "top1": floor.quality.top1 if floor.quality else None,
            "decode_ratio": _spread(floor.decode_ratio),
            "prefill_ratio": _spread(floor.prefill_ratio),
        },
        "cells": [_cell(cell, comparison) for cell in comparison.cells],
    }


def _cell(cell: Cell, comparison: Comparison) -> dict[str, Any]:
    quality = cell.quality
    return {
        "kv_k": cell.pair.k,
        "kv_v": cell.pair.v,
        "depth": cell.depth,
        "context_tokens": cell.context_tokens,
        "decode_tok_per_s": _spread(cell.decode),
        "prefill_tok_per_s": _spread(cell.prefill),
        "decode_ratio": _spread(cell.decode_ratio),
        "prefill_ratio": _spread(cell.prefill_ratio),
        "kv_bytes": cell.kv_bytes,
        "kld_mean": quality.kld_mean if quality else None,
        "kld_se": quality.kld_se if quality else None,
        "top1": quality.top1 if quality else None,
        "top1_se": quality.top1_se if quality else None,
        "scored_tokens": quality.tokens if quality else None,
        "verdict": verdict(cell, comparison),
        "problem": cell.problem or None,
    }


def _spread(spread: Spread | None) -> dict[str, float | None]:
    if spread is None:
        return {"median": None, "low": None, "high": None}
    return {name: round(getattr(spread, name), 4) for name in ("median", "low", "high")}


def comparison_lines(run: StoredRun, setup: CompareSetup, samples: Iterable[Sample]) -> list[str]:
    """The table as people read it: one block for each depth."""
    kept = list(samples)
    comparison = compare(setup, kept)
    title = f"{setup.model.title} · engine {setup.engine_version} · {', '.join(setup.backends)}"
    lines = [f"{title} · {setup.rounds} round{'s' * (setup.rounds != 1)} · run {run.id}"]
    for depth in setup.depths:
        lines += ["", f"{depth:,} tokens in the cache" if depth else "Empty cache"]
        lines += table_lines(_HEAD, [_row(c, comparison) for c in comparison.cells if c.depth == depth])
    lines += ["", *_floor_lines(setup, comparison)]
    if not is_complete(setup, kept):
        lines.append("Not everything is measured yet; the same `kvarn compare` goes on.")
    return lines


_HEAD = ("K / V", "decode tok/s", "× f16", "prefill tok/s", "× f16", "KV", "mean KLD", "top-1 %", "")


def _row(cell: Cell, comparison: Comparison) -> tuple[str, ...]:
    return (
        cell.pair.name,
        _speed_text(cell.decode),
        _ratio_text(cell.decode_ratio),
        _speed_text(cell.prefill),
        _ratio_text(cell.prefill_ratio),
        bytes_text(cell.kv_bytes),
        _kld_text(cell.quality),
        f"{cell.quality.top1 * 100:.1f} ± {cell.quality.top1_se * 100:.1f}" if cell.quality else ABSENT,
        verdict(cell, comparison),
    )


def _speed_text(spread: Spread | None) -> str:
    return ABSENT if spread is None else f"{rate_text(spread.median)} ({_range(spread, rate_text)})"


def _ratio_text(spread: Spread | None) -> str:
    return ABSENT if spread is None else f"{spread.median:.2f} ({_range(spread, '{:.2f}'.format)})"


def _range(spread: Spread, text: Any) -> str:
    return f"{text(spread.low)}–{text(spread.high)}"


def _kld_text(quality: Quality | None) -> str:
    if quality is None:
        return ABSENT
    error = "" if quality.kld_se is None else f" ± {quality.kld_se:.4f}"
    return f"{quality.kld_mean:.4f}{error}"


def _floor_lines(setup: CompareSetup, comparison: Comparison) -> list[str]:
    """The noise floor in words: what f16 is to f16."""
    floor, words = comparison.floor, []
    if floor.decode_ratio:
        low, high = floor.decode_ratio.low, floor.decode_ratio.high
        words.append(f"decode {low:.2f} to {high:.2f} of itself between two runs of a round")
    if floor.quality:
        words.append(f"KLD {floor.quality.kld_mean:.4f}, top-1 {floor.quality.top1 * 100:.1f} %")
    lines = [f"Noise floor, f16 against f16: {'; '.join(words)}."] if words else []
    if setup.quality and floor.quality:
        read = setup.quality.chunks * setup.quality.context_tokens
        where = f"{read:,} tokens of {setup.quality.text_name} in contexts of {setup.quality.context_tokens:,}"
        lines.append(f"Quality: {where}, {floor.quality.tokens:,} of them scored against f16; ± is one standard error.")
    return lines


def table_lines(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Columns as wide as their widest cell: the first and last to the left, figures to the right."""
    widths = [max(len(row[at]) for row in (head, *rows)) for at in range(len(head))]
    last = len(head) - 1

    def line(row: tuple[str, ...]) -> str:
        cells = [
            c.ljust(w) if at in (0, last) else c.rjust(w) for at, (c, w) in enumerate(zip(row, widths, strict=True))
        ]
        return "  " + "  ".join(cells).rstrip()

    return [line(head), *(line(row) for row in rows)]
