from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from kvarn.domain.launch.asked_got import asked_got
from kvarn.domain.launch.engine_props import props_from_json
from kvarn.domain.launch.launch_plan import LaunchPlan, LaunchSettings
from kvarn.domain.launch.memory_budget import MemoryBudget, MemoryKind, MemoryPart

PLAN = LaunchPlan(
    model_path=Path("/m.gguf"),
    model_title="m",
    mmproj=None,
    alias="m",
    settings=LaunchSettings(kv_k="q8_0", kv_v="q8_0", context_tokens=2048, slots=2),
)
STOCK = {
    "default_generation_settings": {"n_ctx": 1024, "params": {"speculative.types": "none"}},
    "total_slots": 2,
    "model_alias": "m",
    "model_path": "/m.gguf",
    "modalities": {"vision": False},
}


def rows(raw: dict, budget: MemoryBudget | None = None) -> dict:
    return {row.label: row for row in asked_got(PLAN, props_from_json(msgspec.json.encode(raw)), budget)}


def test_a_context_the_engine_divided_is_shown_as_a_difference() -> None:
    row = rows(STOCK)["Context / slot"]
    assert (row.asked, row.got, row.agrees) == ("2,048", "1,024", False)


@pytest.mark.parametrize(
    ("told", "got", "agrees"), [(True, "adaptive", True), (False, "fixed", False), (None, "not told", None)]
)
def test_the_length_of_drafts_is_compared_where_something_drafts(told, got, agrees) -> None:
    raw = STOCK | ({"kvarn": {"speculation": {"adaptive": told}}} if told is not None else {})
    plan = msgspec.structs.replace(PLAN, settings=LaunchSettings(speculation="draft-mtp"))
    found = {row.label: row for row in asked_got(plan, props_from_json(msgspec.json.encode(raw)), None)}
    row = found["Draft length"]
    assert (row.asked, row.got, row.agrees) == ("adaptive", got, agrees)
    assert "Draft length" not in rows(raw)


def test_what_a_stock_engine_does_not_tell_is_neither_right_nor_wrong() -> None:
    row = rows(STOCK)["K type"]
    assert (row.got, row.agrees) == ("not told", None)


def test_our_engine_tells_types_and_bytes_and_they_are_compared() -> None:
    part = MemoryPart(kind=MemoryKind.KV, label="KV", bytes=1000, exact=True)
    budget = MemoryBudget(parts=(part,), free_bytes=None)
    told = STOCK | {"kvarn": {"kv_k": "q8_0", "kv_v": "f16", "kv_bytes": 1000, "flash_attention": True, "draft": None}}
    got = rows(told, budget)
    assert got["K type"].agrees is True
    assert got["V type"].agrees is False
    assert got["KV bytes"].agrees is True
    assert (got["Flash attention"].asked, got["Flash attention"].got) == ("auto", "on")


@pytest.mark.parametrize(
    ("told", "got", "agrees"), [(256, "256", True), ("auto", "auto", False), (None, "not told", None)]
)
def test_the_padding_in_effect_is_compared(told: str | int | None, got: str, agrees: bool | None) -> None:
    row = rows(STOCK | {"kvarn": {"kv_pad": told}})["Cache padding"]
    assert (row.asked, row.got, row.agrees) == ("256", got, agrees)


@pytest.mark.parametrize("raw", [{}, {"total_slots": "two", "kvarn": [], "default_generation_settings": None}])
def test_odd_answers_become_absences(raw: dict) -> None:
    assert rows(raw)["Slots"].agrees is None


def test_an_answer_that_is_no_object_is_an_error() -> None:
    with pytest.raises(msgspec.DecodeError):
        props_from_json(b"[]")
