"""From samples to the table."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compare_maker import MIXED, Q8, make_setup, quality, speed
from kvarn.domain.compare.cells import Spread, compare
from kvarn.domain.compare.kv_pair import REFERENCE
from kvarn.domain.compare.measured import Refusal


def cell(samples, pair, depth=0, **changes):
    table = compare(make_setup(**changes), samples)
    return next(c for c in table.cells if (c.pair, c.depth) == (pair, depth))


def test_without_a_sample_everything_is_absent():
    table = compare(make_setup(), [])
    assert len(table.cells) == 6
    assert all(c.decode is c.prefill is c.decode_ratio is c.quality is None for c in table.cells)
    assert table.floor.decode_ratio is table.floor.quality is None


def test_a_speed_is_the_median_of_the_rounds_with_the_slowest_and_fastest():
    samples = [speed(Q8, value, number=number) for number, value in enumerate((30.0, 10.0, 20.0))]
    found = cell(samples, Q8, rounds=3)
    assert found.decode == Spread(20.0, 10.0, 30.0)
    assert found.prefill == Spread(200.0, 100.0, 300.0)


def test_a_ratio_is_taken_round_by_round_between_both_runs_of_the_reference():
    samples = [
        speed(REFERENCE, 10.0),
        speed(REFERENCE, 30.0, again=True),
        speed(Q8, 40.0),
        speed(REFERENCE, 5.0, number=1),
        speed(Q8, 15.0, number=1),
    ]
    assert cell(samples, Q8).decode_ratio == Spread(2.5, 2.0, 3.0)
    assert cell(samples, REFERENCE).decode_ratio is None


def test_the_floor_is_the_second_run_over_the_first():
    samples = [
        speed(REFERENCE, 10.0),
        speed(REFERENCE, 11.0, again=True),
        speed(REFERENCE, 10.0, depth=512),
        speed(REFERENCE, 9.0, depth=512, again=True),
    ]
    floor = compare(make_setup(), samples).floor.decode_ratio
    assert floor is not None
    assert (floor.low, floor.high) == (0.9, 1.1)


@given(st.lists(st.floats(0, 20), min_size=2, max_size=30), st.integers(1, 29))
def test_chunks_add_up_to_the_mean_and_standard_error_of_all_tokens(klds, cut):
    cut = min(cut, len(klds) - 1)
    parts = [quality(MIXED, 0, klds[:cut], cut // 2), quality(MIXED, 1, klds[cut:], 1)]
    found = cell(parts, MIXED).quality
    assert found is not None
    assert found.kld_mean == pytest.approx(np.mean(klds), abs=1e-9)
    assert found.kld_se == pytest.approx(np.std(klds, ddof=1) / len(klds) ** 0.5, rel=1e-3, abs=1e-5)
    assert found.top1 == pytest.approx((cut // 2 + 1) / len(klds))


def test_one_token_has_no_standard_error():
    found = cell([quality(Q8, 0, [0.3], 1)], Q8).quality
    assert found is not None
    assert found.kld_se is None


def test_a_refusal_is_told_in_its_cell_and_one_of_quality_in_all_of_the_pair():
    samples = [Refusal(pair=Q8, depth=0, message="too large"), Refusal(pair=MIXED, depth=None, message="no such")]
    assert cell(samples, Q8).problem == "too large"
    assert cell(samples, Q8, 512).problem == ""
    assert {cell(samples, MIXED, depth).problem for depth in (0, 512)} == {"no such"}
