"""The engine's own allocation beside ours: real loads of real models, equal to the byte.

The engine's log gives cells, layers and streams as whole numbers and the type of K and V; with the row
of the header these are bytes. Its MiB figure, rounded to two decimals, is checked as well.
"""

from __future__ import annotations

import contextlib
import functools
import re
import subprocess
import threading
from pathlib import Path

import httpx
import pytest

from kvarn.domain.errors import EngineNotFoundError
from kvarn.domain.launch.attention_layout import attention_layout
from kvarn.domain.launch.engine_build import EngineBuild
from kvarn.domain.launch.estimate import estimate_budget
from kvarn.domain.launch.kv_bytes import asked_tokens, drafts_with_mtp
from kvarn.domain.launch.launch_plan import FlashAttention, LaunchSettings
from kvarn.domain.launch.memory_budget import MemoryKind
from kvarn.domain.library.model_entry import ModelEntry
from kvarn.domain.settings import Settings
from kvarn.services.launch.engine_locator import locate_engine
from kvarn.services.launch.port_owner import next_free_port
from kvarn.services.library.find_model import entry_from_path
from patience import eventually

pytestmark = pytest.mark.engine

TYPES = [("f16", "f16"), ("q8_0", "q8_0"), ("q4_0", "q4_0"), ("q8_0", "q4_0")]
_CACHE = re.compile(
    r"llama_kv_cache: size = +([\d.]+) MiB \( *(\d+) cells, +(\d+) layers, +\d+/(\d+) seqs\), "
    r"K \((\w+)\): +([\d.]+) MiB, V \((\w+)\): +([\d.]+) MiB"
)
_STATE = re.compile(r"llama_memory_recurrent: size = +([\d.]+) MiB")
TINY_HYBRID = Path(__file__).parents[2] / "data" / "tiny-hybrid-mtp-random.gguf"


@pytest.fixture(scope="module")
def build() -> EngineBuild:
    try:
        return locate_engine(Settings())
    except EngineNotFoundError as error:
        pytest.skip(str(error))


def server_command(build: EngineBuild, model: Path, s: LaunchSettings) -> tuple[list[str], int]:
    """A llama-server asked for exactly these settings, and its port."""
    port = next_free_port("127.0.0.1", 5900)
    command = [build.server, "-m", model, "-c", asked_tokens(s), "-np", s.slots, "-ctk", s.kv_k, "-ctv", s.kv_v]
    command += ["-ub", s.ubatch_tokens, "-b", s.batch_tokens, "-fa", s.flash_attention, "--spec-type", s.speculation]
    command += ["--port", port, "--no-warmup", "-lv", 5, "-fit", "off", "-ngl", 0]
    command += ["--kv-unified"] if s.kv_unified else ["--no-kv-unified"]
    command += ["--swa-full"] if s.swa_full else []
    return [str(part) for part in command], port


def real_load_log(build: EngineBuild, model: Path, s: LaunchSettings) -> str:
    """Load a model for real with llama-server; its log until the memory of its last context is in place."""
    contexts = 2 if drafts_with_mtp(s) else 1
    command, _ = server_command(build, model, s)
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    watchdog = threading.Timer(100, child.kill)
    watchdog.start()
    lines = []
    try:
        for line in child.stdout:
            lines.append(line)
            contexts -= "compute buffer size =" in line
            if not contexts:
                break
    finally:
        child.kill()
        child.communicate()
        watchdog.cancel()
        watchdog.join()
    log = "".join(lines)
    assert not contexts, log[-3000:]
    return log


@functools.cache
def listed(model: Path) -> ModelEntry:
    return entry_from_path(model)


def allocated(log: str, settings: LaunchSettings, model: Path) -> tuple[list[int], list[int]]:
    """Bytes of the caches of the main context and of the prediction block, from the engine's counts."""
    layout = attention_layout(listed(model).facts)
    rows = {group.layers: group for group in (*layout.kv, *layout.mtp)}
    sizes = []
    for mib, cells, layers, streams, k, k_mib, v, v_mib in _CACHE.findall(log):
        group = rows[int(layers)]
        count = int(cells) * int(layers) * int(streams)
        k_bytes, v_bytes = count * _row_bytes(k, group.k_row), count * _row_bytes(v, group.v_row)
        assert f"{k_bytes / 2**20:.2f}" == f"{float(k_mib):.2f}"
        assert f"{v_bytes / 2**20:.2f}" == f"{float(v_mib):.2f}"
        assert abs((k_bytes + v_bytes) / 2**20 - float(mib)) < 0.0051
        sizes.append(k_bytes + v_bytes)
    main = len(layout.kv)
    return sizes[:main], sizes[main:]


def _row_bytes(kind: str, values: int) -> int:
    """Bytes of one row by the `gguf` package's table, which is not ours."""
    from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

    block, size = GGML_QUANT_SIZES[GGMLQuantizationType[kind.upper()]]
    return values // block * size


def agree(build: EngineBuild, model: Path, settings: LaunchSettings) -> None:
    kv_k, kv_v = build.kv_type(settings.kv_k), build.kv_type(settings.kv_v)
    budget = estimate_budget(listed(model), settings, kv_k, kv_v, free_bytes=None)
    log = real_load_log(build, model, settings)
    main, draft = allocated(log, settings, model)
    assert [part.bytes for part in budget.parts if part.kind is MemoryKind.KV] == main
    assert budget.of(MemoryKind.DRAFT) == sum(draft)
    states = [float(mib) for mib in _STATE.findall(log)]
    assert f"{budget.of(MemoryKind.RECURRENT) / 2**20:.2f}" == f"{sum(states):.2f}"


@pytest.mark.parametrize("context", [512, 3000, 8192])
@pytest.mark.parametrize(("kv_k", "kv_v"), TYPES)
@pytest.mark.parametrize("model", ["starter", "gemma"])
def test_predicted_kv_equals_what_the_engine_allocates(build, starter_model, gemma_model, model, kv_k, kv_v, context):
    path = starter_model if model == "starter" else gemma_model
    agree(build, path, LaunchSettings(kv_k=kv_k, kv_v=kv_v, context_tokens=context))


@pytest.mark.parametrize(
    "settings",
    [
        LaunchSettings(context_tokens=1100, slots=3),
        LaunchSettings(context_tokens=4096, slots=2),
        LaunchSettings(context_tokens=8192, slots=2, kv_unified=True),
        LaunchSettings(context_tokens=4096, ubatch_tokens=1024),
        LaunchSettings(context_tokens=4096, ubatch_tokens=64),
        LaunchSettings(context_tokens=4096, ubatch_tokens=2048, batch_tokens=256),
        LaunchSettings(context_tokens=4096, swa_full=True),
        LaunchSettings(context_tokens=4096, flash_attention=FlashAttention.OFF, kv_k="q8_0"),
    ],
    ids=repr,
)
def test_sliding_windows_follow_slots_batches_and_pool(build, gemma_model, settings):
    agree(build, gemma_model, settings)


@pytest.mark.parametrize(
    "settings",
    [
        LaunchSettings(context_tokens=4096),
        LaunchSettings(context_tokens=2048, slots=2, speculation="draft-mtp"),
        LaunchSettings(context_tokens=2048, kv_k="q4_0", kv_v="q4_0", slots=3, kv_unified=True),
    ],
    ids=repr,
)
def test_a_hybrid_with_a_prediction_block_takes_what_we_predict(build, settings):
    agree(build, TINY_HYBRID, settings)


@pytest.mark.parametrize(
    ("model", "settings"),
    [
        ("starter", LaunchSettings(context_tokens=3000, slots=2, kv_k="q8_0", kv_v="q4_0")),
        ("gemma", LaunchSettings(context_tokens=4096, slots=2, kv_unified=True, kv_k="q4_0", kv_v="q8_0")),
        ("hybrid", LaunchSettings(context_tokens=2048, slots=2, speculation="draft-mtp")),
    ],
    ids=["starter", "gemma", "hybrid"],
)
def test_the_running_engine_reports_the_bytes_we_predicted(build, starter_model, gemma_model, model, settings):
    if not build.is_kvarn:
        pytest.skip("a stock engine does not report its memory")
    path = {"starter": starter_model, "gemma": gemma_model, "hybrid": TINY_HYBRID}[model]
    facts = running_facts(build, path, settings)
    types = build.kv_type(settings.kv_k), build.kv_type(settings.kv_v)
    budget = estimate_budget(listed(path), settings, *types, free_bytes=None)
    assert facts["kv_bytes"] == budget.of(MemoryKind.KV)
    assert facts["recurrent_bytes"] == budget.of(MemoryKind.RECURRENT)
    assert (facts["draft"] or {"kv_bytes": 0})["kv_bytes"] == budget.of(MemoryKind.DRAFT)


def running_facts(build: EngineBuild, model: Path, s: LaunchSettings) -> dict:
    """The `kvarn` part of /props, once the server is up."""
    command, port = server_command(build, model, s)
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        eventually(lambda: is_ready(child, port), 100)
        props = httpx.get(f"http://127.0.0.1:{port}/props", trust_env=False).json()
    finally:
        child.kill()
        child.wait()
    return props["kvarn"]


def is_ready(child: subprocess.Popen[bytes], port: int) -> bool:
    assert child.poll() is None
    with contextlib.suppress(httpx.TransportError):
        return httpx.get(f"http://127.0.0.1:{port}/health", trust_env=False).is_success
    return False
