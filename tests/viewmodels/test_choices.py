"""The form's entries for cache types tell the bits of the blocks this model would be stored in."""

from __future__ import annotations

import pytest

from known_models import PLANAR3, TBQ4, TCQ3, TCQ4, build, dense, entry, facts
from kvarn.domain.launch.launch_plan import LaunchDraft, LaunchSettings
from kvarn.domain.library.model_facts import ModelFacts
from kvarn.viewmodels.launch.choices import kv_choices

ROTATED = (TBQ4, TCQ4, PLANAR3, TCQ3)


def details(model: ModelFacts | None, field: str = "kv_k") -> list[str]:
    draft = LaunchDraft(model=entry(model) if model else None, settings=LaunchSettings())
    offered = {choice.value: choice.detail for choice in kv_choices(draft, build(*ROTATED), field)}
    assert offered["q8_0"] == "8.5 bits"
    return [offered[kv.name] for kv in ROTATED]


@pytest.mark.parametrize("model", [None, dense("llama", 2, 4, 2, 128), facts("no-such-architecture")])
def test_whole_blocks_where_they_fit_or_nothing_is_known(model):
    assert details(model) == ["4.125 bits", "4.125 bits", "3.125 bits", "3.125 bits"]


@pytest.mark.parametrize("field", ["kv_k", "kv_v"])
def test_half_blocks_for_heads_of_64(field):
    assert details(dense("llama", 2, 4, 2, 64), field) == ["4.25 bits", "4.25 bits", "3.25 bits", "3.25 bits"]


def test_k_and_v_each_follow_their_own_heads():
    model = dense("llama", 2, 4, 2, 64, attention__value_length=128)
    assert details(model, "kv_k")[0] == "4.25 bits"
    assert details(model, "kv_v")[0] == "4.125 bits"
