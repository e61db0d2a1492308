"""Names a person can type."""

from __future__ import annotations

from kvarn.domain.library.model_entry import ModelSource
from kvarn.domain.library.unique_ids import unique_ids

FOLDER = ModelSource.FOLDER


def test_a_name_that_occurs_once_stays_short() -> None:
    assert unique_ids(["a", "b"], ["x", "x"], [FOLDER] * 2) == ["a", "b"]


def test_equal_names_are_told_apart_by_origin_and_then_by_number() -> None:
    ids = unique_ids(["m", "m", "m"], ["bart/m", "uns/m", "uns/m"], [FOLDER] * 3)
    assert ids == ["bart/m/m", "uns/m/m", "uns/m/m~2"]


def test_starter_is_reserved_for_the_starter_model() -> None:
    ids = unique_ids(["starter", "SmolLM2"], ["", ""], [FOLDER, ModelSource.STARTER])
    assert ids == ["starter~2", "starter"]
