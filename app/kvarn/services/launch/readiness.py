"""Asks a loading engine whether it is ready, makes sure that it is ours, and gives up only on silence."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from enum import Enum

import psutil

from kvarn.domain.launch.launch_plan import LaunchPlan
from kvarn.services.clock import Clock
from kvarn.services.launch.child_process import ChildProcess

POLL_S = 0.1
STALL_S = 60.0
_STRANGER_S = 5.0
_LIVELY_CPU_S = 0.01


class Verdict(Enum):
    """What became of a load; a child that ended is not told here but by its own exit."""

    READY = "ready"
    STALLED = "stalled"
    STRANGER = "stranger"


class Silence:
    """Seconds without a sign of life. One long gap between two looks, as after suspend, counts as one look."""

    def __init__(self, now_s: float) -> None:
        self.seconds = 0.0
        self._last_s = now_s
        self._signs: tuple[float, ...] = ()

    def look(self, now_s: float, signs: tuple[float, ...], lively: float = 0.0) -> None:
        """Any sign that grew by more than `lively` is life and starts the count again."""
        step = min(max(now_s - self._last_s, 0.0), 2.0)
        grew = len(signs) != len(self._signs) or any(n - o > lively for n, o in zip(signs, self._signs, strict=True))
        self.seconds = 0.0 if grew else self.seconds + step
        self._signs = signs if grew else self._signs
        self._last_s = now_s


class ReadinessWatch:
    """Watches one load from a thread of its own until it can say a verdict, or is cancelled."""

    def __init__(
        self,
        plan: LaunchPlan,
        child: ChildProcess,
        api_key: str | None,
        *,
        clock: Clock,
        stall_s: float,
        on_verdict: Callable[[Verdict], None],
    ) -> None:
        self._plan = plan
        self._child = child
        self._clock = clock
        self._stall_s = stall_s
        self._on_verdict = on_verdict
        self._cancelled = threading.Event()
        self._api_key = api_key
        self._thread = threading.Thread(target=self._run, name="engine-readiness", daemon=True)
        self._thread.start()

    def cancel(self) -> None:
        """No verdict will be told after this returns, except one already on its way."""
        self._cancelled.set()

    def join(self, timeout_s: float) -> None:
        """Wait for the thread."""
        self._thread.join(timeout_s)

    def _run(self) -> None:
        # Imported here because httpx takes a fifth of the time until the window is up.
        from kvarn.services.launch.health import HealthCheck

        with contextlib.closing(HealthCheck(self._plan, self._child.pid, self._api_key)) as health:
            verdict = self._watch(health.ask)
        if verdict and not self._cancelled.is_set():
            self._on_verdict(verdict)

    def _watch(self, ask: Callable[[], tuple[bool, bool]]) -> Verdict | None:
        silence = Silence(self._clock.now())
        stranger_since_s: float | None = None
        while not self._cancelled.is_set() and self._child.is_alive:
            answers, ours = ask()
            now_s = self._clock.now()
            if answers and ours:
                return Verdict.READY
            stranger_since_s = (stranger_since_s or now_s) if answers else None
            if stranger_since_s is not None and now_s - stranger_since_s > _STRANGER_S:
                return Verdict.STRANGER
            silence.look(now_s, self._signs_of_life(), _LIVELY_CPU_S)
            if silence.seconds > self._stall_s:
                return Verdict.STALLED
            self._cancelled.wait(POLL_S)
        return None

    def _signs_of_life(self) -> tuple[float, ...]:
        """Bytes of log, CPU seconds, bytes read from disk: weights on a slow drive are paged in without the others."""
        cpu_s = disk_bytes = 0.0
        with contextlib.suppress(psutil.Error, AttributeError):
            process = psutil.Process(self._child.pid)
            times = process.cpu_times()
            cpu_s = times.user + times.system
            disk_bytes = process.io_counters().read_bytes
        return (float(self._child.lines.bytes_read), cpu_s, disk_bytes)
