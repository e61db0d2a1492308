"""How tests wait and measure on a machine that may be slow or pause: for a state, and with noise set aside."""

from __future__ import annotations

import time
from collections.abc import Callable

HANG_S = 60.0
"""Nothing a test waits for takes this long: the limit only ends a hang."""
_REFERENCE_S = 0.012
"""CPU seconds of `_reference_work` on the machine that the tests' CPU budgets were set on."""


def eventually(condition: Callable[[], object], seconds: float = HANG_S) -> None:
    """Return once the condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"it has not come about within {seconds} s"
        time.sleep(0.01)


def promptly(measure: Callable[[], float], limit_s: float, tries: int = 3) -> None:
    """`measure` stays below the limit at least once: a busy machine adds seconds now and then, a defect every time."""
    took_s: list[float] = []
    while len(took_s) < tries:
        took_s.append(measure())
        if took_s[-1] < limit_s:
            return
    raise AssertionError(f"took {took_s} s, each time {limit_s} s or more")


def noise_aside(check: Callable[[], None], tries: int = 3) -> None:
    """A comparison of two measured times holds at least once: a pause may fall into one of them, a defect into all."""
    for left in reversed(range(tries)):
        try:
            check()
        except AssertionError:
            if not left:
                raise
        else:
            return


def cpu_budget(seconds: float) -> float:
    """What work of so many CPU seconds may take here and now; more on a slower or crowded core, never less."""
    begun = time.thread_time()
    sum(n * n for n in range(200_000))
    return seconds * max(1.0, (time.thread_time() - begun) / _REFERENCE_S)
