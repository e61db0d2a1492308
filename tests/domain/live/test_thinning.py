from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvarn.domain.live.thinning import thin

curves = st.lists(st.one_of(st.floats(-1e6, 1e6), st.just(np.nan)), min_size=1, max_size=400)


@given(curves, st.integers(2, 60))
def test_the_extremes_the_ends_and_the_order_of_a_curve_survive_thinning(values, points):
    v = np.array(values)
    t = np.linspace(1000, 1100, len(v))
    thin_t, thin_v = thin(t, v, points)
    assert np.all(np.diff(thin_t) >= 0)
    assert thin_t[0] == t[0]
    assert thin_t[-1] == t[-1]
    if not np.isnan(v).all():
        assert np.nanmax(thin_v) == np.nanmax(v)
        assert np.nanmin(thin_v) == np.nanmin(v)


@given(curves, st.integers(2, 60))
def test_no_line_is_drawn_across_a_gap(values, points):
    """Two neighbours kept without a gap mark between them had none between them in the original either."""
    v = np.array(values)
    t = np.arange(len(v), dtype=float)
    thin_t, thin_v = thin(t, v, points)
    for left, right in zip(range(len(thin_t) - 1), range(1, len(thin_t)), strict=True):
        if np.isnan(thin_v[left]) or np.isnan(thin_v[right]):
            continue
        assert not np.isnan(v[int(thin_t[left]) : int(thin_t[right]) + 1]).any()


@given(st.integers(2, 200), st.integers(10, 5000))
def test_a_curve_without_gaps_becomes_at_most_the_points_asked_plus_its_ends(points, count):
    t = np.linspace(5, 905, count)
    thin_t, _ = thin(t, np.sin(t), points)
    assert len(thin_t) <= max(points, 4) + 4


def test_a_scrolling_window_keeps_showing_the_same_inner_points():
    t = np.arange(0, 4000, 0.25)
    v = np.random.default_rng(1).normal(size=len(t))
    one = set(thin(t[:8000], v[:8000], 400)[0][4:-4])
    two = set(thin(t[3:8003], v[3:8003], 400)[0][4:-4])
    assert len(one & two) / len(one | two) > 0.95


@pytest.mark.parametrize("v", [[np.nan] * 50, [1.0] * 50, [np.nan] + [2.0] * 49, [1e308, -1e308] * 25])
def test_awkward_curves_keep_their_shape(v):
    t = np.arange(50.0)
    thin_t, thin_v = thin(t, np.array(v), 10)
    assert len(thin_t) <= 40
    assert set(np.unique(thin_v[~np.isnan(thin_v)])) == set(np.unique(np.array(v)[~np.isnan(v)]))


def test_samples_of_one_single_moment_do_not_divide_by_zero():
    thin_t, thin_v = thin(np.full(20, 3.0), np.arange(20.0), 4)
    assert set(thin_t) == {3.0}
    assert {thin_v.min(), thin_v.max()} == {0, 19}
