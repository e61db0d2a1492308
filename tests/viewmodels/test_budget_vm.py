"""The budget of the form: an estimate at once, the engine's word when it comes."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from kvarn.domain.errors import EngineCallError
from kvarn.domain.kv_type import STOCK_KV_TYPES
from kvarn.domain.launch.check_draft import check_draft
from kvarn.domain.launch.decode_speed import Calibration, DecodeMeasurement
from kvarn.domain.launch.dry_run_report import DryRun
from kvarn.domain.launch.engine_build import EngineBuild
from kvarn.domain.launch.grade import Grade
from kvarn.domain.launch.launch_plan import LaunchDraft, LaunchSettings
from kvarn.domain.launch.memory_budget import MemoryKind
from kvarn.domain.library.model_entry import ModelEntry
from kvarn.services.library.catalog import entry_from_path
from kvarn.viewmodels.launch import budget_vm as budget_vm_module
from kvarn.viewmodels.launch.budget_text import kinds, verdict
from kvarn.viewmodels.launch.budget_vm import BudgetVm
from patience import HANG_S, cpu_budget

BUILD = EngineBuild(
    server=Path("/e/llama-server"), bin_dir=Path("/e"), base="x", version="1", is_kvarn=False, kv_types=STOCK_KV_TYPES
)


def report(compute: int) -> DryRun:
    return DryRun(caches=(), recurrent_bytes=0, compute_by_device={"CPU": compute}, engine_version="1")


@pytest.fixture
def model(starter_model: Path) -> ModelEntry:
    return entry_from_path(starter_model)


def budget_vm(dry_run=lambda plan, build, is_stale: None, free: int | None = 8 << 30, **seams) -> BudgetVm:
    return BudgetVm(
        free_bytes=lambda build, layers, outgoing: free,
        dry_run=dry_run,
        calibration=seams.get("calibration", lambda: None),
        last_grades=seams.get("last_grades", lambda count: ()),
    )


def consider(vm: BudgetVm, model: ModelEntry, **settings) -> None:
    draft = LaunchDraft(model=model, settings=LaunchSettings(**settings))
    vm.consider(draft, check_draft(draft, BUILD).plan, BUILD)


def test_an_edit_is_priced_at_once_and_in_a_few_milliseconds(qapp, model: ModelEntry) -> None:
    vm = budget_vm()
    costs = []
    for step in range(20):
        start = time.thread_time()
        consider(vm, model, context_tokens=1024 + 256 * step)
        costs.append(time.thread_time() - start)
    assert sorted(costs)[10] < cpu_budget(0.005)
    consider(vm, model, context_tokens=8192)
    assert vm.budget is not None
    assert vm.budget.of(MemoryKind.KV) == 188_743_680
    assert verdict(vm.budget)[0].startswith("fits")
    vm.close()


def test_the_engines_own_figure_replaces_the_estimate_for_the_newest_edit_only(
    qtbot, model: ModelEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget_vm_module, "_SETTLE_S", 0.5)
    asked: list[int] = []

    def dry_run(plan, build, is_stale) -> DryRun:
        asked.append(plan.settings.context_tokens)
        return report(plan.settings.context_tokens)

    vm = budget_vm(dry_run)
    for context in (1024, 2048, 4096):
        consider(vm, model, context_tokens=context)
        assert "~" in dict(kinds(vm.budget))[MemoryKind.COMPUTE]
    qtbot.waitUntil(lambda: vm.budget.of(MemoryKind.COMPUTE) == 4096, timeout=60_000)
    assert asked == [4096]
    assert "~" not in dict(kinds(vm.budget))[MemoryKind.COMPUTE]
    vm.close()


def test_an_engine_that_refuses_in_its_dry_run_is_quoted(qtbot, model: ModelEntry) -> None:
    def dry_run(plan, build, is_stale) -> DryRun:
        raise EngineCallError("The engine refused this launch in a dry run.", "first\nlast word")

    vm = budget_vm(dry_run)
    consider(vm, model)
    qtbot.waitUntil(lambda: bool(vm.refusal), timeout=60_000)
    assert vm.refusal == "The engine refused this launch in a dry run. last word"
    consider(vm, model, context_tokens=512)
    assert vm.refusal == ""
    vm.close()


def test_closing_gives_up_a_dry_run_that_still_works(qapp, qtbot, model: ModelEntry) -> None:
    started, given_up = threading.Event(), threading.Event()

    def dry_run(plan, build, is_stale) -> None:
        started.set()
        while not is_stale():
            time.sleep(0.01)
        given_up.set()

    vm = budget_vm(dry_run)
    consider(vm, model)
    assert started.wait(HANG_S)
    vm.close()
    assert given_up.wait(HANG_S)


def test_without_a_run_on_this_machine_no_speed_is_claimed(qapp, model: ModelEntry) -> None:
    vm = budget_vm()
    consider(vm, model)
    assert vm.near_empty is None
    assert "known after a first answer" in vm.speed_text
    vm.close()


def test_a_measured_run_gives_a_range_near_empty_and_filled_with_its_basis(qapp, model: ModelEntry) -> None:
    run = DecodeMeasurement(
        model_id=model.id,
        model_title=model.title,
        step_bytes=100_000_000,
        decode_tok_per_s=50,
        depth_tokens=10,
        on_gpu=False,
        engine_version="1",
    )
    vm = budget_vm(calibration=lambda: Calibration((run,)))
    consider(vm, model)
    assert vm.near_empty is not None
    assert vm.filled is not None
    assert vm.filled.high < vm.near_empty.high
    assert "tok/s near-empty" in vm.speed_text
    assert vm.near_empty.basis in vm.speed_text
    vm.close()


def test_how_good_earlier_predictions_were_is_said_and_nothing_before_the_first(qapp) -> None:
    grades = tuple(Grade(model_id="m", quantity="kv_bytes", predicted=1000, measured=m) for m in (1000, 982, 1010))
    vm = budget_vm(last_grades=lambda count: grades)
    assert vm.basis_text == "KV cache of the last three loads predicted within 1.8 %"
    vm.close()
    silent = budget_vm()
    assert silent.basis_text == ""
    silent.close()


def test_too_much_memory_says_by_how_much_and_unknown_free_memory_claims_nothing(qapp, model: ModelEntry) -> None:
    for free, words, tone in ((1 << 20, "does not fit", "bad"), (None, "free memory is unknown", "mute")):
        vm = budget_vm(free=free)
        consider(vm, model)
        sentence, shown_tone = verdict(vm.budget)
        assert words in sentence
        assert shown_tone == tone
        vm.close()
