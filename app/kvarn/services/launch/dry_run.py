"""Ask the engine what a launch takes, without allocating it; remember the answer."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from kvarn.domain.errors import EngineCallError
from kvarn.domain.launch.dry_run_report import DryRun, dry_run_from_log
from kvarn.domain.launch.engine_arguments import DRAFT_TYPE_K, DRAFT_TYPE_V, argument_value
from kvarn.domain.launch.engine_build import EngineBuild
from kvarn.domain.launch.kv_bytes import asked_tokens, draft_tokens, drafts_with_mtp
from kvarn.domain.launch.launch_plan import FlashAttention, LaunchPlan
from kvarn.services import paths
from kvarn.services.atomic_file import write_atomic
from kvarn.services.launch.bindings import has_bindings, worker_environment
from kvarn.services.launch.no_alloc_worker import WorkerAnswer, WorkerRequest

DEADLINE_S = 60.0
_LAST_WORDS = 15
_KEEP = 200
_FLASH = {FlashAttention.AUTO: -1, FlashAttention.OFF: 0, FlashAttention.ON: 1}
_store_lock = threading.Lock()


def dry_run(
    plan: LaunchPlan,
    build: EngineBuild,
    *,
    cancelled: Callable[[], bool] = lambda: False,
    deadline_s: float = DEADLINE_S,
) -> DryRun | None:
    """The engine's own figures for a plan: at once when known, else from a child process, in seconds.

    None when cancelled, or when this engine comes without its Python bindings (a stock llama-server).
    Raises EngineCallError, with the engine's last words, when it refuses, crashes or takes too long.
    """
    package = build.bin_dir.parent
    if not has_bindings(package):
        return None
    key = _key(plan, build)
    known = _remembered().get(key)
    if known is not None:
        return known
    answer = _ask(_request(plan, package), cancelled, deadline_s)
    if answer is None:
        return None
    report = dry_run_from_log(answer.log, build.version)
    _remember(key, report)
    return report


def _request(plan: LaunchPlan, package: Path) -> WorkerRequest:
    s = plan.settings
    return WorkerRequest(
        package_dir=str(package),
        model_path=str(plan.model_path),
        kv_k=s.kv_k,
        kv_v=s.kv_v,
        context_tokens=asked_tokens(s),
        slots=s.slots,
        kv_unified=s.kv_unified,
        batch_tokens=s.batch_tokens,
        ubatch_tokens=s.ubatch_tokens,
        flash_attention=_FLASH[s.flash_attention],
        swa_full=s.swa_full,
        gpu_layers=s.gpu_layers,
        draft_tokens=draft_tokens(s),
        with_mtp=drafts_with_mtp(s),
        draft_kv_k=argument_value(s.extra_args, DRAFT_TYPE_K) or "f16",
        draft_kv_v=argument_value(s.extra_args, DRAFT_TYPE_V) or "f16",
    )


def _key(plan: LaunchPlan, build: EngineBuild) -> str:
    """Identity of file, settings and engine: another size, time or version asks again."""
    stamps = [(path.stat().st_size, path.stat().st_mtime_ns) for path in (plan.model_path, build.server)]
    asked = msgspec.json.encode(_request(plan, build.bin_dir.parent))
    return hashlib.sha256(asked + repr((stamps, build.version)).encode()).hexdigest()


def _ask(request: WorkerRequest, cancelled: Callable[[], bool], deadline_s: float) -> WorkerAnswer | None:
    child = subprocess.Popen(
        [sys.executable, "-m", "kvarn.services.launch.no_alloc_worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | worker_environment(),
    )
    try:
        output = _exchange(child, msgspec.json.encode(request), cancelled, deadline_s)
    finally:
        child.kill()
        child.communicate()
    return None if output is None else _decoded(output, child.returncode)


def _exchange(
    child: subprocess.Popen[bytes], request: bytes, cancelled: Callable[[], bool], deadline_s: float
) -> tuple[bytes, bytes] | None:
    end = time.monotonic() + deadline_s
    pending: bytes | None = request
    while not cancelled():
        try:
            return child.communicate(pending, timeout=0.1)
        except subprocess.TimeoutExpired:
            pending = None
        if time.monotonic() > end:
            raise EngineCallError(f"The engine did not finish its dry run within {deadline_s:.0f} s.")
    return None


def _decoded(output: tuple[bytes, bytes], exit_code: int) -> WorkerAnswer:
    try:
        answer = msgspec.json.decode(output[0], type=WorkerAnswer)
    except msgspec.DecodeError:
        words = _last_lines(output[1].decode(errors="replace"))
        raise EngineCallError(f"The engine's dry run ended without an answer (exit {exit_code}).", words) from None
    if not answer.ok:
        raise EngineCallError("The engine refused this launch in a dry run.", _last_lines(answer.log))
    return answer


def _last_lines(text: str) -> str:
    return "\n".join(text.strip().splitlines()[-_LAST_WORDS:])


def _store() -> Path:
    return paths.cache_dir() / "dry-runs.json"


def _remembered() -> dict[str, DryRun]:
    try:
        return msgspec.json.decode(_store().read_bytes(), type=dict[str, DryRun])
    except (OSError, msgspec.DecodeError, RecursionError):
        return {}


def _remember(key: str, report: DryRun) -> None:
    """Keep the newest answers; a cache that cannot be written only costs time."""
    with _store_lock:
        known = {**_remembered(), key: report}
        newest = dict(list(known.items())[-_KEEP:])
        try:
            write_atomic(_store(), msgspec.json.encode(newest))
        except OSError:
            return
