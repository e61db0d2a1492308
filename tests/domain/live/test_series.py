from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvarn.domain.live.series import Series

steps = st.lists(st.tuples(st.floats(0, 10), st.floats(allow_nan=True, allow_infinity=True)), max_size=60)


@given(st.integers(1, 9), steps)
def test_a_window_over_everything_is_the_last_samples_in_order(capacity, samples):
    series, plain, t = Series(capacity), [], 0.0
    for step, value in samples:
        t += step
        series.append(t, value)
        plain.append((t, value if math.isfinite(value) else math.nan))
    times, values = series.window(-math.inf, math.inf)
    np.testing.assert_array_equal(times, [t for t, _ in plain[-capacity:]])
    np.testing.assert_array_equal(values, [v for _, v in plain[-capacity:]])
    assert len(series) == len(times)


@given(st.integers(1, 9), st.integers(0, 40), st.integers(-3, 45), st.integers(-3, 45))
def test_a_window_holds_exactly_the_samples_between_its_ends(capacity, count, low, high):
    series = Series(capacity)
    for t in range(count):
        series.append(float(t), t * 2.0)
    times, values = series.window(low, high)
    assert times.tolist() == [t for t in range(count)[-capacity:] if low <= t <= high]
    assert values.tolist() == [2 * t for t in times]


def test_a_window_is_a_copy_that_later_samples_do_not_change():
    series = Series(4)
    series.append(0, 1)
    _, before = series.window(0, 9)
    for t in range(1, 9):
        series.append(t, 50)
    assert before.tolist() == [1]


def test_a_sample_from_the_past_is_dropped_because_time_only_moves_forward():
    series = Series(4)
    assert series.append(2, 1)
    assert not series.append(1, 9)
    assert series.window(0, 9)[1].tolist() == [1]


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_a_value_that_is_not_finite_is_a_gap_and_the_last_real_one_stays_known(value):
    series = Series(4)
    series.append(0, 7)
    series.append(1, value)
    assert math.isnan(series.last[1])
    assert series.last_finite == (0, 7)


def test_an_empty_series_has_no_last_sample_and_an_empty_window():
    series = Series(4)
    assert series.last is None
    assert series.last_finite is None
    assert [len(a) for a in series.window(0, 1)] == [0, 0]
