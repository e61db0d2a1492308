"""A machine is crowded when no core was free within the last minute."""

from __future__ import annotations

import numpy as np
import pytest

from kvarn.domain.live.crowding import is_crowded


class Samples:
    def __init__(self, *samples: tuple[float, float]) -> None:
        self._t, self._v = np.array([t for t, _ in samples]), np.array([v for _, v in samples])

    def window(self, _name: str, t0_s: float, t1_s: float) -> tuple[np.ndarray, np.ndarray]:
        inside = (self._t >= t0_s) & (self._t <= t1_s)
        return self._t[inside], self._v[inside]


@pytest.mark.parametrize(
    ("samples", "now_s", "crowded"),
    [
        ((), 10, False),
        (((5, 60),), 10, False),
        (((5, 97), (6, 3)), 10, True),
        (((5, 97), (6, 3)), 66, False),
        (((5, float("nan")),), 10, False),
    ],
)
def test_the_last_minute_counts_and_a_gap_is_no_reading(samples, now_s: float, crowded: bool) -> None:
    assert is_crowded(Samples(*samples), now_s) is crowded
