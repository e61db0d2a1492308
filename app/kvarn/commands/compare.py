"""`kvarn compare`: speed, memory and quality of cache types side by side; stopped and resumed at will."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Annotated

import psutil
import typer

from kvarn.commands.compare_output import CompareProgress, comparison_document, comparison_lines
from kvarn.commands.launch_options import Json, Model
from kvarn.commands.output import fail, print_json
from kvarn.commands.stop_signals import signals_call
from kvarn.domain.compare.kv_pair import KvPair, parse_depths, parse_pairs
from kvarn.domain.compare.setup import QUALITY_CONTEXT, QUALITY_TOKENS
from kvarn.domain.errors import EngineCallError
from kvarn.domain.launch.engine_build import EngineBuild
from kvarn.services.clock import SystemClock
from kvarn.services.compare.compare_store import CompareStore
from kvarn.services.compare.comparison import ComparisonRun
from kvarn.services.compare.lab_lock import alone_in_the_lab
from kvarn.services.compare.prepare import Prepared, Wish, prepare
from kvarn.services.compare.program_run import Cancelled
from kvarn.services.launch.engine_locator import locate_engine
from kvarn.services.launch.free_memory import free_memory_bytes
from kvarn.services.library.catalog import scan_now
from kvarn.services.library.find_model import find_model
from kvarn.services.settings_store import SettingsStore

USUAL = ("q8_0", "q4_0", "tbq4_0", "tcq4_0", "planar3_0", "tcq3_0")
"""Compared when nobody names types, as far as the engine offers them."""
_LOOK_S = 0.5


def compare(
    model: Model,
    kv: Annotated[
        str | None, typer.Option("--kv", metavar="T[,T…]", help="Cache types, e.g. q8_0,q8_0/tbq4_0; the usual ones.")
    ] = None,
    depth: Annotated[
        str, typer.Option("--depth", metavar="N[,N…]", help="Tokens already in the cache when speed is taken.")
    ] = "0,4096",
    rounds: Annotated[int, typer.Option("--rounds", min=1, max=100, help="How often each speed is taken.")] = 3,
    quality: Annotated[
        bool, typer.Option("--quality/--no-quality", help="Measure KLD and top-1 against f16, or speed only.")
    ] = True,
    text: Annotated[
        Path | None, typer.Option("--text", help="A UTF-8 text to measure quality on; the Python reference.")
    ] = None,
    quality_tokens: Annotated[
        int, typer.Option("--quality-tokens", min=1, help="Tokens of text to read.")
    ] = QUALITY_TOKENS,
    quality_context: Annotated[
        int, typer.Option("--quality-context", min=1, help="Tokens read in one context, half of them scored.")
    ] = QUALITY_CONTEXT,
    threads: Annotated[int | None, typer.Option("--threads", min=1, help="CPU threads; the engine decides.")] = None,
    ngl: Annotated[int | None, typer.Option("--ngl", min=0, help="Layers on the GPU; the engine decides.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Measure anew; do not go on with a stopped run.")] = False,
    as_json: Json = False,
) -> None:
    """Compare cache types by decode and prefill speed, memory, and quality against f16.

    Runs take turns, so that a drift of the machine meets every type alike. Ctrl-C stops; the same command goes on.
    """
    stored = SettingsStore().load().settings
    build = locate_engine(stored)
    pairs, depths = _asked(kv, depth, build)
    entry = find_model(model, scan_now(stored))
    if not entry.is_servable:
        fail(entry.problem.message if entry.problem else "The header of this model file cannot be read.")
    wish = Wish(
        pairs=pairs,
        depths=depths,
        rounds=rounds,
        threads=threads,
        gpu_layers=ngl,
        with_quality=quality,
        text=text,
        quality_context=quality_context,
        quality_tokens=quality_tokens,
    )
    _measure(prepare(entry, build, wish), build, fresh=fresh, as_json=as_json)


def _asked(kv: str | None, depth: str, build: EngineBuild) -> tuple[tuple[KvPair, ...], tuple[int, ...]]:
    usual = ",".join(name for name in USUAL if build.kv_type(name))
    try:
        return parse_pairs(usual if kv is None else kv), parse_depths(depth)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def _measure(prepared: Prepared, build: EngineBuild, *, fresh: bool, as_json: bool) -> None:
    """Measure while the lab is ours alone, then print what there is, however it ended."""
    setup, store = prepared.setup, CompareStore()
    with alone_in_the_lab():
        run = store.begin(setup, fresh=fresh)
        samples = store.samples(run)
        progress, stop, trouble = CompareProgress(), threading.Event(), ""
        progress.begin(run, setup, prepared.warnings, found=len(samples), busy=_busy())
        comparison = ComparisonRun(
            setup,
            samples,
            keep=lambda sample: store.keep(run, sample),
            on_progress=progress.show,
            cancelled=stop.is_set,
            free_bytes=lambda: free_memory_bytes(build, setup.gpu_layers),
            clock=SystemClock(),
        )
        try:
            with signals_call(stop.set):
                comparison.measure()
        except Cancelled:
            trouble = "Stopped."
        except EngineCallError as error:
            trouble = f"{error} {error.detail}".strip()
        finally:
            progress.end()
    if as_json:
        print_json(comparison_document(run, setup, comparison.samples))
    else:
        typer.echo("\n".join(comparison_lines(run, setup, comparison.samples)))
    if trouble:
        fail(f"{trouble} What was measured is kept as run {run.id}; the same command goes on with it.")


def _busy() -> float:
    """Share of the machine that others use now, 0 to 1."""
    return float(psutil.cpu_percent(_LOOK_S)) / 100
