"""Starts the quality worker and hands on what it finds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from kvarn.domain.compare.kv_pair import KvPair
from kvarn.domain.compare.measured import QualitySample, Refusal
from kvarn.domain.compare.setup import CompareSetup
from kvarn.domain.errors import EngineCallError
from kvarn.domain.launch.command_line import EngineCommand
from kvarn.services.compare.program_run import decoded, run_program
from kvarn.services.compare.quality_worker import MARK, QualityAnswer, QualityRequest, Reading, TokenCount, Trouble
from kvarn.services.launch.bindings import worker_environment

_ANSWER: msgspec.json.Decoder[QualityAnswer] = msgspec.json.Decoder(QualityAnswer)
_WORKER = "kvarn.services.compare.quality_worker"


def count_tokens(
    package_dir: Path, model_path: str, text_path: str, cancelled: Callable[[], bool] = lambda: False
) -> int:
    """Tokens a text has for a model. Raises EngineCallError, or Cancelled."""
    request = QualityRequest(package_dir=str(package_dir), model_path=model_path, text_path=text_path, context_tokens=0)
    counts: list[int] = []

    def take(answer: QualityAnswer) -> None:
        if isinstance(answer, TokenCount):
            counts.append(answer.tokens)

    _ask(request, "Counting the text's tokens", take, cancelled)
    if not counts:
        raise EngineCallError("Counting the text's tokens ended without an answer.")
    return counts[0]


def run_quality(
    setup: CompareSetup,
    chunks: tuple[int, ...],
    pairs: tuple[KvPair, ...],
    *,
    on_sample: Callable[[QualitySample | Refusal], None],
    on_reading: Callable[[Reading], None],
    cancelled: Callable[[], bool],
) -> None:
    """Let the pairs read these chunks. Raises EngineCallError, or Cancelled; what was found till then was handed on."""
    assert setup.quality is not None
    request = QualityRequest(
        package_dir=str(Path(setup.engine_dir).parent),
        model_path=setup.model.path,
        text_path=setup.quality.text_path,
        text_sha256=setup.quality.text_sha256,
        context_tokens=setup.quality.context_tokens,
        chunks=chunks,
        pairs=pairs,
        threads=setup.threads,
        gpu_layers=setup.gpu_layers,
    )

    def take(answer: QualityAnswer) -> None:
        if isinstance(answer, Reading):
            on_reading(answer)
        elif isinstance(answer, QualitySample | Refusal):
            on_sample(answer)

    _ask(request, "Measuring quality", take, cancelled)


def _ask(
    request: QualityRequest, what: str, take: Callable[[QualityAnswer], None], cancelled: Callable[[], bool]
) -> None:
    troubles: list[str] = []

    def read(line: str) -> None:
        # The engine's words share the stream and may stand before ours on the same line.
        _, mark, told = line.partition(MARK)
        if not mark:
            return
        answer: QualityAnswer = decoded(told, _ANSWER, what)
        if isinstance(answer, Trouble):
            troubles.append(answer.message)
        else:
            take(answer)

    argv = (sys.executable, "-m", _WORKER, msgspec.json.encode(request).decode())
    run_program(EngineCommand(argv, worker_environment()), what, read, cancelled)
    if troubles:
        raise EngineCallError(troubles[0])
