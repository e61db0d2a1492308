"""What context checkpoints may take: only where memory cannot be cut, within what was asked."""

from __future__ import annotations

import pytest

from known_models import GEMMA3_4B, MIB, QWEN36_27B, SMOLLM2, TYPES, build, entry
from kvarn.domain.launch.check_draft import check_draft
from kvarn.domain.launch.estimate import estimate_budget
from kvarn.domain.launch.launch_plan import LaunchDraft, LaunchSettings, Severity

GIB = 1024 * MIB


def limit(model, ram_bytes=None, **settings) -> int:
    f16 = TYPES["f16"]
    budget = estimate_budget(entry(model), LaunchSettings(**settings), f16, f16, free_bytes=None, ram_bytes=ram_bytes)
    assert budget.total_bytes == sum(part.bytes for part in budget.parts)
    return budget.checkpoint_bytes


def test_a_cache_that_can_be_cut_needs_none():
    assert limit(SMOLLM2) == 0
    assert limit(SMOLLM2, checkpoints_mib=64) == 0
    assert limit(GEMMA3_4B, swa_full=True) == 0


@pytest.mark.parametrize("model", [QWEN36_27B, GEMMA3_4B])
def test_what_is_asked_is_the_limit_and_the_engine_takes_a_tenth_of_the_ram_up_to_2_gib(model):
    assert limit(model, checkpoints_mib=64) == 64 * MIB
    assert limit(model, checkpoints_mib=0) == 0
    assert limit(model, ram_bytes=8 * GIB) == 8 * GIB // 10
    assert limit(model, ram_bytes=64 * GIB) == 2 * GIB
    assert limit(model) == 2 * GIB


def problem_of(model, mib):
    planning = check_draft(LaunchDraft(model=entry(model), settings=LaunchSettings(checkpoints_mib=mib)), build())
    found = [p for p in planning.problems if p.field == "checkpoints_mib"]
    return found[0] if found else None


def test_a_budget_that_holds_no_checkpoint_is_named_before_the_launch():
    small = problem_of(QWEN36_27B, 64)
    assert small.severity is Severity.WARNS
    assert "150 MiB;" in small.message
    assert "151 MiB" in small.remedy
    assert [problem_of(QWEN36_27B, mib) for mib in (None, 0, 151)] == [None] * 3
    assert problem_of(SMOLLM2, 1) is None


@pytest.mark.parametrize("mib", [-1, 1 << 21])
def test_a_budget_out_of_range_blocks(mib):
    assert problem_of(SMOLLM2, mib).severity is Severity.BLOCKS
