"""One run of the engine's own `llama-bench`: decode and prefill speed of a pair at a filled depth."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from kvarn.domain.compare.measured import SpeedSample
from kvarn.domain.compare.setup import CompareSetup
from kvarn.domain.compare.steps import SpeedStep
from kvarn.domain.errors import EngineCallError
from kvarn.domain.launch.command_line import ENGINE_ENVIRONMENT, EngineCommand
from kvarn.services.compare.program_run import decoded, run_program

PROGRAM = "llama-bench.exe" if sys.platform == "win32" else "llama-bench"


class _Row(msgspec.Struct):
    """The fields we read of one line of `-o jsonl`."""

    n_gen: int
    avg_ts: float


_ROW = msgspec.json.Decoder(_Row)
_BEGIN = '{"'


def bench_command(setup: CompareSetup, step: SpeedStep) -> EngineCommand:
    """One prompt and one answer at the depth, each timed once; the cache is filled once for both."""
    words = ["-m", setup.model.path, "-ctk", step.pair.k, "-ctv", step.pair.v, "-d", str(step.depth)]
    words += ["-p", str(setup.prompt_tokens), "-n", str(setup.answer_tokens), "-r", "1", "-o", "jsonl"]
    words += [] if setup.threads is None else ["-t", str(setup.threads)]
    words += [] if setup.gpu_layers is None else ["-ngl", str(setup.gpu_layers)]
    return EngineCommand((str(Path(setup.engine_dir) / PROGRAM), *words), ENGINE_ENVIRONMENT)


def run_bench(setup: CompareSetup, step: SpeedStep, cancelled: Callable[[], bool]) -> SpeedSample:
    """Measure one step. Raises EngineCallError with the program's last words, or Cancelled."""
    rows: list[_Row] = []
    what = f"Measuring {step.pair.name} at depth {step.depth:,}"

    def take(line: str) -> None:
        # Both streams share the pipe: a word on stderr may stand before a row.
        _, mark, rest = line.partition(_BEGIN)
        if mark:
            rows.append(decoded(mark + rest, _ROW, what))

    run_program(bench_command(setup, step), what, take, cancelled)
    speeds = {"decode" if row.n_gen else "prefill": row.avg_ts for row in rows}
    if speeds.keys() != {"decode", "prefill"}:
        raise EngineCallError(f"{PROGRAM} did not tell the speed of {step.pair.name} at depth {step.depth:,}.")
    return SpeedSample(
        round=step.round,
        pair=step.pair,
        depth=step.depth,
        again=step.again,
        decode_tok_per_s=speeds["decode"],
        prefill_tok_per_s=speeds["prefill"],
    )
