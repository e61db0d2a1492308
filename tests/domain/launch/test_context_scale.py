"""The context slider's scale."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvarn.domain.launch.context_scale import last_position, position_of, tokens_at

models = st.integers(min_value=1, max_value=1 << 27)


@given(models)
def test_the_end_of_the_way_is_exactly_what_the_model_was_trained_for(most: int) -> None:
    assert tokens_at(last_position(most), most) == max(most, 256)
    assert tokens_at(0, most) in (256, max(most, 256))


@given(models, st.data())
def test_every_position_is_found_again_from_its_tokens_within_a_step(most: int, data: st.DataObject) -> None:
    position = data.draw(st.integers(min_value=0, max_value=last_position(most)))
    assert abs(position_of(tokens_at(position, most), most) - position) <= 4


@given(models)
def test_further_right_is_never_less(most: int) -> None:
    values = [tokens_at(position, most) for position in range(last_position(most) + 1)]
    assert values == sorted(values)


@pytest.mark.parametrize("tokens", [-5, 0, 1, 1 << 40])
def test_a_number_beyond_the_ends_sits_at_the_end(tokens: int) -> None:
    assert position_of(tokens, 8192) in (0, last_position(8192))
