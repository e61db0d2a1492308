"""From what was asked to a setup that can be measured, or a sentence why not, before anything is measured."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from kvarn.domain.compare.kv_pair import REFERENCE, KvPair
from kvarn.domain.compare.planning import cell_settings, cell_size, comparison_problems, needs_together
from kvarn.domain.compare.setup import (
    PROMPT_TOKENS,
    QUALITY_CONTEXT,
    QUALITY_TOKENS,
    ComparedModel,
    CompareSetup,
    QualitySetup,
)
from kvarn.domain.errors import CompareError
from kvarn.domain.launch.engine_build import EngineBuild
from kvarn.domain.launch.launch_plan import PlanProblem, Severity
from kvarn.domain.library.model_entry import ModelEntry
from kvarn.services.compare.bench_run import PROGRAM
from kvarn.services.compare.quality_run import count_tokens
from kvarn.services.compare.text_reader import BATCH_TOKENS, reference_text
from kvarn.services.launch.bindings import has_bindings

_LARGEST_TEXT = 64 << 20
REFERENCE_TEXT = "the Python language reference"


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What a person asked for."""

    pairs: tuple[KvPair, ...]
    depths: tuple[int, ...] = (0, 4096)
    rounds: int = 3
    threads: int | None = None
    gpu_layers: int | None = None
    with_quality: bool = True
    text: Path | None = None
    """None for the reference text."""
    quality_context: int = QUALITY_CONTEXT
    quality_tokens: int = QUALITY_TOKENS


class Prepared(msgspec.Struct, frozen=True):
    """A setup, and what should be known before it is measured."""

    setup: CompareSetup
    warnings: tuple[PlanProblem, ...]


def prepare(entry: ModelEntry, build: EngineBuild, wish: Wish) -> Prepared:
    """Check every cell by the rules of a launch. Raises CompareError, or EngineCallError when the text cannot be
    counted."""
    _check_engine(build, wish)
    launches = {
        (pair, depth): cell_settings(pair, depth + PROMPT_TOKENS, wish.threads, wish.gpu_layers)
        for pair in wish.pairs
        for depth in wish.depths
    }
    problems = comparison_problems(entry, build, launches.values())
    blocking = [f"{p.message} {p.remedy}" for p in problems if p.severity is Severity.BLOCKS]
    if blocking:
        raise CompareError(" ".join(dict.fromkeys(blocking)))
    status = entry.path.stat()
    setup = CompareSetup(
        model=ComparedModel(
            id=entry.id,
            title=entry.title,
            path=_plain_path(entry.path),
            file_bytes=status.st_size,
            modified_ns=status.st_mtime_ns,
        ),
        engine_version=build.version,
        engine_dir=str(build.bin_dir),
        backends=build.backends,
        pairs=wish.pairs,
        depths=wish.depths,
        rounds=wish.rounds,
        threads=wish.threads,
        gpu_layers=wish.gpu_layers,
        quality=_quality(entry, build, wish) if wish.with_quality else None,
        sizes=tuple(cell_size(entry, build, *cell, settings) for cell, settings in launches.items()),
    )
    return Prepared(setup, tuple(problem for problem in problems if problem.severity is Severity.WARNS))


def _check_engine(build: EngineBuild, wish: Wish) -> None:
    if not (build.bin_dir / PROGRAM).is_file():
        raise CompareError(f"This engine comes without {PROGRAM}, which measures speed; {build.bin_dir} lacks it.")
    if wish.with_quality and not has_bindings(build.bin_dir.parent):
        raise CompareError("This engine comes without its Python bindings, which measure quality; add --no-quality.")


def _plain_path(path: Path) -> str:
    """Raises CompareError for a name that is no text: JSON cannot carry it."""
    try:
        return path.as_posix().encode().decode()
    except UnicodeEncodeError:
        raise CompareError("The name of this model file is not valid UTF-8; rename it to compare it.") from None


def _quality(entry: ModelEntry, build: EngineBuild, wish: Wish) -> QualitySetup:
    """Whole contexts only, as many as asked or as the text has."""
    if wish.quality_context % (2 * BATCH_TOKENS):
        raise CompareError(f"The quality context must be a multiple of {2 * BATCH_TOKENS}.")
    text = _text(wish.text) if wish.text else reference_text()
    path = str(wish.text.absolute()) if wish.text else ""
    found = count_tokens(build.bin_dir.parent, _plain_path(entry.path), path)
    if found < wish.quality_context:
        raise CompareError(f"The text has {found:,} tokens; one context of {wish.quality_context:,} needs more.")
    asked = -(-wish.quality_tokens // wish.quality_context)
    return QualitySetup(
        text_name=wish.text.name if wish.text else REFERENCE_TEXT,
        text_path=path,
        text_sha256=hashlib.sha256(text.encode()).hexdigest(),
        context_tokens=wish.quality_context,
        chunks=max(1, min(asked, found // wish.quality_context)),
        needs_bytes=_quality_bytes(entry, build, wish),
    )


def _quality_bytes(entry: ModelEntry, build: EngineBuild, wish: Wish) -> int | None:
    launches = [
        (pair, cell_settings(pair, wish.quality_context, wish.threads, wish.gpu_layers))
        for pair in (*wish.pairs, REFERENCE)
    ]
    return needs_together(cell_size(entry, build, pair, wish.quality_context, settings) for pair, settings in launches)


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > _LARGEST_TEXT:
            raise CompareError(f"{path} is larger than {_LARGEST_TEXT >> 20} MiB; give a shorter text.")
        return path.read_text("utf-8")
    except OSError as error:
        raise CompareError(f"The text {path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError:
        raise CompareError(f"{path} is not a UTF-8 text.") from None
