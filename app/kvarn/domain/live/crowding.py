"""When watching costs what is watched: no core is free, so whatever the console computes is taken from the engine."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kvarn.domain.live import quantities as q

CROWDED_PERCENT = 90
"""Of all cores in use. The engine's threads wait for each other: one of them held up holds up all."""
MEMORY_S = 60
"""An engine that took every core for its last answer will take them for the next one, from its first token."""


class Readings(Protocol):
    """Where samples are kept."""

    def window(self, name: str, t0_s: float, t1_s: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Times and values with t0 <= t <= t1."""


def is_crowded(readings: Readings, now_s: float) -> bool:
    """True when no core was free at some moment of the last minute; False when the share is not known."""
    _, percent = readings.window(q.SYSTEM_CPU_PERCENT, now_s - MEMORY_S, now_s)
    return bool((percent >= CROWDED_PERCENT).any())
