"""Fewer points for the same picture: every peak, dip and gap a pixel column would show survives."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_Places = NDArray[np.intp]


def thin(t: Floats, v: Floats, points: int) -> tuple[Floats, Floats]:
    """At most about `points` values of (t, v) that keep minimum and maximum of every time bucket.

    `t` ascends; NaN in `v` is a gap. There are points/2 buckets of equal time; of each survive the smallest and
    the largest value. Between two survivors with a gap between them comes one gap mark (beyond `points`), so no
    line is drawn across a gap. Buckets lie at whole multiples of their width, so that a scrolling window does not
    make the curve shimmer.
    """
    if len(t) <= max(points, 4):
        return t, v
    bucket = _bucket_of(t, max(points // 2, 1))
    gap = np.isnan(v)
    ends = np.array([0, len(t) - 1])
    lows = _extreme_of_each(bucket, np.where(gap, np.inf, v), np.minimum)
    highs = _extreme_of_each(bucket, np.where(gap, -np.inf, v), np.maximum)
    values = np.unique(np.concatenate([ends, lows, highs]))
    places = np.union1d(values, _first_gap_between(values, np.flatnonzero(gap)))
    return t[places], v[places]


def _bucket_of(t: Floats, buckets: int) -> _Places:
    span = float(t[-1] - t[0])
    if span <= 0:
        return np.zeros(len(t), dtype=np.intp)
    # Rounded up to a quarter octave: a span that grows by one sample keeps its bucket borders.
    width = 2 ** (np.ceil(np.log2(span / buckets) * 4) / 4)
    first = np.floor(t[0] / width)
    bucket: _Places = (np.floor(t / width) - first).astype(np.intp)
    return bucket


def _extreme_of_each(bucket: _Places, v: Floats, pick: np.ufunc) -> _Places:
    """Place of the first smallest (or largest) value of each bucket; v is infinite at gaps."""
    new = np.flatnonzero(np.diff(bucket, prepend=bucket[0] - 1))
    best = np.repeat(pick.reduceat(v, new), np.diff(np.append(new, len(v))))
    return _first_of_each(bucket, np.flatnonzero((v == best) & np.isfinite(v)))


def _first_of_each(bucket: _Places, places: _Places) -> _Places:
    first: _Places = places[np.diff(bucket[places], prepend=-1) != 0]
    return first


def _first_gap_between(values: _Places, gaps: _Places) -> _Places:
    """For each pair of neighbours the first gap after the left one, where it comes before the right one."""
    following = np.searchsorted(gaps, values[:-1])
    has_one = following < len(gaps)
    candidates = gaps[following[has_one]]
    between: _Places = candidates[candidates < values[1:][has_one]]
    return between
