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
    starts = _bucket_starts(t, max(points // 2, 1))
    keep = np.zeros(len(t), dtype=bool)
    keep[[0, -1]] = True
    keep[_first_in_each(starts, _extremes(v, starts, np.fmin))] = True
    keep[_first_in_each(starts, _extremes(v, starts, np.fmax))] = True
    gaps = np.flatnonzero(np.isnan(v))
    if len(gaps):
        keep[_first_in_each(np.flatnonzero(keep), gaps)] = True
    return t[keep], v[keep]


def _bucket_starts(t: Floats, buckets: int) -> _Places:
    """The place of the first sample of each bucket that has one."""
    span = float(t[-1] - t[0])
    if span <= 0:
        return np.zeros(1, dtype=np.intp)
    # Rounded up to a quarter octave: a span that grows by one sample keeps its bucket borders.
    width = 2 ** (np.ceil(np.log2(span / buckets) * 4) / 4)
    borders = np.arange(np.floor(t[0] / width) + 1, np.floor(t[-1] / width) + 1) * width
    starts: _Places = np.unique(np.append(0, np.searchsorted(t, borders)))
    return starts[starts < len(t)]


def _extremes(v: Floats, starts: _Places, pick: np.ufunc) -> _Places:
    """Places of all samples equal to the smallest (or largest) of their bucket; none in a bucket of gaps only."""
    best = np.repeat(pick.reduceat(v, starts), np.diff(np.append(starts, len(v))))
    places: _Places = np.flatnonzero(v == best)
    return places


def _first_in_each(starts: _Places, places: _Places) -> _Places:
    """For each stretch that begins at a start and ends before the next: the first of `places` in it, if any."""
    following = np.searchsorted(places, starts)
    ends = np.append(starts[1:], np.iinfo(np.intp).max)
    inside = following < len(places)
    candidates = places[following[inside]]
    first: _Places = candidates[candidates < ends[inside]]
    return first
