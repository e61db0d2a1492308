"""The engine's dry run happens in a child that may crash, hang or refuse without harm to us."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import msgspec
import pytest

from known_models import SMOLLM2, build, entry
from kvarn.domain.errors import EngineCallError, EngineNotFoundError
from kvarn.domain.launch.check_draft import check_draft
from kvarn.domain.launch.engine_build import EngineBuild
from kvarn.domain.launch.estimate import estimate_budget
from kvarn.domain.launch.launch_plan import LaunchDraft, LaunchPlan, LaunchSettings
from kvarn.domain.launch.memory_budget import MemoryKind
from kvarn.domain.settings import Settings
from kvarn.services import paths
from kvarn.services.launch.dry_run import dry_run
from kvarn.services.launch.engine_locator import locate_engine
from kvarn.services.library.find_model import entry_from_path


def fake_engine(tmp_path: Path, bindings: str) -> tuple[EngineBuild, LaunchPlan]:
    """An engine whose bindings do what a test wants, and a plan for it."""
    package = tmp_path / "llama_cpp"
    (package / "bin").mkdir(parents=True)
    (package / "llama_cpp.py").write_text(bindings)
    server = package / "bin" / "llama-server"
    server.write_text("")
    model = tmp_path / "model.gguf"
    model.write_bytes(b"GGUF")
    engine = build(server=server, bin_dir=server.parent)
    draft = LaunchDraft(model=entry(SMOLLM2, paths=(model,)), settings=LaunchSettings())
    return engine, check_draft(draft, engine).plan


def test_an_engine_without_bindings_cannot_be_asked(tmp_path):
    engine, plan = fake_engine(tmp_path, "")
    (engine.bin_dir.parent / "llama_cpp.py").unlink()
    assert dry_run(plan, engine) is None


def test_a_crash_costs_the_child_and_ends_in_a_sentence(tmp_path):
    engine, plan = fake_engine(
        tmp_path, "import os, sys; print('GGML_ASSERT(x)', file=sys.stderr, flush=True); os.abort()"
    )
    with pytest.raises(EngineCallError, match="without an answer") as caught:
        dry_run(plan, engine)
    assert "GGML_ASSERT(x)" in caught.value.detail


def test_bindings_that_do_not_load_end_in_a_sentence(tmp_path):
    engine, plan = fake_engine(tmp_path, "raise ImportError('no libllama')")
    with pytest.raises(EngineCallError) as caught:
        dry_run(plan, engine)
    assert "no libllama" in caught.value.detail


def test_a_dry_run_that_hangs_is_ended_at_its_deadline(tmp_path):
    engine, plan = fake_engine(tmp_path, "import time; time.sleep(60)")
    start = time.monotonic()
    with pytest.raises(EngineCallError, match="within 1 s"):
        dry_run(plan, engine, deadline_s=1)
    assert time.monotonic() - start < 50


def test_a_dry_run_can_be_cancelled(tmp_path):
    engine, plan = fake_engine(tmp_path, "import time; time.sleep(60)")
    stop = threading.Event()
    timer = threading.Timer(0.3, stop.set)
    timer.start()
    assert dry_run(plan, engine, cancelled=stop.is_set) is None
    timer.join()


@pytest.fixture
def engine() -> EngineBuild:
    try:
        found = locate_engine(Settings())
    except EngineNotFoundError as error:
        pytest.skip(str(error))
    if not (found.bin_dir.parent / "llama_cpp.py").is_file():
        pytest.skip("this engine comes without its bindings")
    return found


def plan_for(model: Path, engine: EngineBuild, **settings) -> LaunchPlan:
    planning = check_draft(LaunchDraft(model=entry_from_path(model), settings=LaunchSettings(**settings)), engine)
    assert planning.plan, planning.problems
    return planning.plan


@pytest.mark.engine
def test_the_engine_agrees_with_our_kv_bytes_and_tells_its_compute_buffer(engine, starter_model):
    plan = plan_for(starter_model, engine, kv_k="q8_0", kv_v="q4_0", slots=2)
    report = dry_run(plan, engine)
    (cache,) = report.caches
    assert (cache.cells, cache.layers, cache.streams, cache.kv_k, cache.kv_v) == (8192, 30, 2, "q8_0", "q4_0")
    types = engine.kv_type("q8_0"), engine.kv_type("q4_0")
    budget = estimate_budget(entry_from_path(starter_model), plan.settings, *types, free_bytes=None)
    assert abs(budget.of(MemoryKind.KV) - cache.bytes) < 0.01 * 2**20
    rough, told = budget.of(MemoryKind.COMPUTE), report.compute_bytes
    assert 0.6 < rough / told < 1.6


@pytest.mark.engine
def test_an_answer_is_remembered_until_settings_or_engine_change(engine, starter_model, monkeypatch):
    plan = plan_for(starter_model, engine)
    first = dry_run(plan, engine)
    with monkeypatch.context() as nobody_to_ask:
        nobody_to_ask.setattr("kvarn.services.launch.dry_run._ask", lambda *_: pytest.fail("asked again"))
        assert dry_run(plan, engine) == first
    stored = msgspec.json.decode((paths.cache_dir() / "dry-runs.json").read_bytes())
    assert len(stored) == 1
    dry_run(plan_for(starter_model, engine, context_tokens=4096), engine)
    dry_run(plan, msgspec.structs.replace(engine, version="another"))
    assert len(msgspec.json.decode((paths.cache_dir() / "dry-runs.json").read_bytes())) == 3


@pytest.mark.engine
def test_a_file_the_engine_refuses_gives_its_own_words(engine, starter_model, tmp_path):
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(starter_model.read_bytes()[:100_000])
    plan = msgspec.structs.replace(plan_for(starter_model, engine), model_path=broken)
    with pytest.raises(EngineCallError, match="refused") as caught:
        dry_run(plan, engine)
    assert caught.value.detail
