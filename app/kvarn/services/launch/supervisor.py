"""The single writer of EngineStatus: commands and facts come in through one queue, one thread acts on them."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from typing import Protocol

from kvarn.domain.launch.engine_build import EngineBuild
from kvarn.domain.launch.engine_events import (
    ChildExited,
    ChildStarted,
    EngineEvent,
    LaunchRequested,
    ReadySeen,
    RestartDue,
    StartFailed,
    StopRequested,
)
from kvarn.domain.launch.engine_exit import load_stalled, stranger_answers
from kvarn.domain.launch.engine_status import EnginePhase, EngineStatus, ImpossibleEventError, advance
from kvarn.domain.launch.exit_report import ExitReport
from kvarn.domain.launch.launch_plan import LaunchPlan
from kvarn.domain.launch.restart_policy import RestartPolicy
from kvarn.domain.live.log_line import LogLevel
from kvarn.services.clock import Clock, SystemClock
from kvarn.services.launch.engine_run import EngineRun, RunRequest, StartRefusedError
from kvarn.services.launch.leftovers import end_leftovers
from kvarn.services.launch.memory_settle import CHECK_EVERY_S, FreeBytes, MemorySettle, free_ram
from kvarn.services.launch.readiness import STALL_S, Verdict

log = logging.getLogger(__name__)

TERM_GRACE_S = 2.5
"""From the polite request to the rude one; with the reaping after it, well inside the 5 s of a stop."""
_LONGEST_NAP_S = 0.25

Callback = Callable[[EngineStatus], None]


class LogSink(Protocol):
    """Takes a line; without a level it is judged by its words."""

    def __call__(self, source: str, text: str, level: LogLevel | None = None, /) -> None:
        """Add it."""


def _no_log(source: str, text: str, level: LogLevel | None = None, /) -> None:
    pass


class Supervisor:
    """Launches and stops one engine at a time. All methods return at once and may be called from any thread.

    Callbacks run on the supervisor's thread, `on_log` on a thread of the child's; neither may call `close`.
    """

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        on_log: LogSink = _no_log,
        restart_policy: RestartPolicy | None = None,
        stall_s: float = STALL_S,
        term_grace_s: float = TERM_GRACE_S,
        read_free: Callable[[], FreeBytes] = free_ram,
    ) -> None:
        self._clock = clock or SystemClock()
        self._on_log = on_log
        self._policy = restart_policy or RestartPolicy()
        self._stall_s, self._term_grace_s, self._read_free = stall_s, term_grace_s, read_free
        self._inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._status = EngineStatus()
        self._launches = 0
        self._callbacks: list[Callback] = []
        self._thread: threading.Thread | None = None
        # Everything below belongs to the supervisor's thread.
        self._request: RunRequest | None = None
        self._run: EngineRun | None = None
        self._verdict_report: ExitReport | None = None
        self._ended_s: float | None = None
        self._timer: tuple[float, Callable[[], None]] | None = None
        self._closing = False

    @property
    def status(self) -> EngineStatus:
        """How things stand now."""
        with self._changed:
            return self._status

    def launch(self, plan: LaunchPlan, build: EngineBuild, api_key: str | None = None) -> bool:
        """Start an engine; False, and nothing done, while one is active.

        The status is `starting` when this returns, so that a caller can wait for what follows.
        """
        with self._changed:
            if self._closing or self._status.is_active:
                return False
            self._status = advance(self._status, LaunchRequested(self._clock.now(), plan))
            self._launches += 1
            self._ensure_thread()
            # Under the lock: a Stop that sees this launch must come after it in the queue.
            self._inbox.put(lambda: self._accept(RunRequest(plan, build, api_key)))
        return True

    def start(self) -> None:
        """End engines that an earlier console left behind, without waiting for the first launch."""
        with self._changed:
            if not self._closing:
                self._ensure_thread()

    def stop(self) -> None:
        """End the engine, whatever it is doing. Nothing happens when there is none."""
        with self._changed:
            # A Stop belongs to the launch it was pressed for, not to one pressed while it waits its turn.
            number = self._launches
        self._inbox.put(lambda: self._stop(number))

    def subscribe(self, callback: Callback) -> Callable[[], None]:
        """Call back with each new status, on the supervisor's thread. Returns the way to unsubscribe."""
        with self._changed:
            self._callbacks.append(callback)
        return lambda: self._unsubscribe(callback)

    def wait_for(self, predicate: Callable[[EngineStatus], bool], timeout_s: float) -> EngineStatus:
        """Block until a status satisfies `predicate`. Raises TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(lambda: predicate(self._status), timeout_s):
                raise TimeoutError(f"the engine is still {self._status.phase}")
            return self._status

    def close(self, timeout_s: float = 5) -> None:
        """Stop the engine and the thread; afterwards no child is left. May be called twice."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            self._closing = True
            thread = self._thread
        if thread is None:
            return
        self.stop()
        thread.join(timeout_s)
        if thread.is_alive() and (run := self._run):
            run.end_by_force()
            thread.join(max(1.0, deadline - time.monotonic()))

    # -- the supervisor's thread ---------------------------------------------------------------

    def _ensure_thread(self) -> None:
        if self._thread is None:
            # Children are tied to this thread's life: it must not end before them.
            self._thread = threading.Thread(target=self._loop, name="engine-supervisor", daemon=True)
            self._thread.start()

    def _loop(self) -> None:
        self._sweep()
        while not self._closing or self.status.is_active:
            try:
                self._next_action()()
                self._ring_timer()
            except Exception:
                log.exception("the supervisor met a defect")

    def _sweep(self) -> None:
        try:
            for note in end_leftovers():
                self._say(f"ended an engine left over from an earlier console (process {note.pid}, port {note.port})")
        except OSError as error:
            self._say(f"engines left over from an earlier console could not be looked for: {error}")

    def _next_action(self) -> Callable[[], None]:
        try:
            return self._inbox.get(timeout=self._nap_s())
        except queue.Empty:
            return self._ring_timer

    def _nap_s(self) -> float:
        if self._timer is None:
            return _LONGEST_NAP_S if self._closing else 3600.0
        return min(max(self._timer[0] - self._clock.now(), 0.0), _LONGEST_NAP_S)

    def _ring_timer(self) -> None:
        if self._timer and self._timer[0] <= self._clock.now():
            _, action = self._timer
            self._timer = None
            action()

    def _in(self, seconds: float, action: Callable[[], None]) -> None:
        """One timer is enough: each phase waits for one thing."""
        self._timer = (self._clock.now() + seconds, action)

    def _accept(self, request: RunRequest) -> None:
        self._request = request
        self._tell_all()
        self._prepare()

    def _prepare(self) -> None:
        """Give the system time to take back what the last engine held."""
        if self._ended_s is None:
            self._start()
            return
        settle = MemorySettle(self._read_free, self._ended_s)

        def check() -> None:
            if settle.is_settled(self._clock.now()):
                self._start()
            else:
                self._in(CHECK_EVERY_S, check)

        check()

    def _start(self) -> None:
        assert self._request is not None
        self._verdict_report = None
        try:
            run = EngineRun(
                self._request,
                clock=self._clock,
                stall_s=self._stall_s,
                on_log=self._on_log,
                on_exit=lambda run: self._inbox.put(lambda: self._exited(run)),
                on_verdict=lambda run, verdict: self._inbox.put(lambda: self._judged(run, verdict)),
            )
        except StartRefusedError as refusal:
            self._apply(StartFailed(self._clock.now(), refusal.report))
            return
        self._run = run
        self._apply(ChildStarted(self._clock.now(), run.pid))

    def _stop(self, number: int) -> None:
        if number != self._launches:
            return
        self._apply(StopRequested(self._clock.now()))
        if self._run is None:
            self._timer = None
        elif self._timer is None:
            self._end_run()

    def _end_run(self) -> None:
        assert self._run is not None
        self._run.ask_to_end()
        self._in(self._term_grace_s, self._run.end_by_force)

    def _judged(self, run: EngineRun, verdict: Verdict) -> None:
        if run is not self._run or self._status.phase is not EnginePhase.LOADING:
            return
        if verdict is Verdict.READY:
            run.became_ready()
            self._apply(ReadySeen(self._clock.now()))
            return
        plan, words = run.request.plan, run.words()
        stalled = verdict is Verdict.STALLED
        self._verdict_report = load_stalled(plan, self._stall_s, words) if stalled else stranger_answers(plan, words)
        self._end_run()

    def _exited(self, run: EngineRun) -> None:
        now_s, status = self._clock.now(), self._status
        stopping = status.phase is EnginePhase.STOPPING
        report = run.explain(stop_requested=stopping)
        if self._verdict_report and not stopping:
            report = self._verdict_report
        run.clean_up()
        self._run, self._timer, self._ended_s = None, None, now_s
        served_s = None if status.ready_since_s is None else now_s - status.ready_since_s
        pause_s = None if self._closing else self._policy.pause_s(status.restarts, served_s)
        unasked = LogLevel.WARNING if pause_s is not None else LogLevel.ERROR
        self._say(report.message, None if stopping else unasked)
        self._apply(ChildExited(now_s, report, will_restart=pause_s is not None))
        if pause_s is not None and self._status.phase is EnginePhase.RESTARTING:
            self._say(f"starting it again in {pause_s:.0f} s")
            self._in(pause_s, self._restart)

    def _restart(self) -> None:
        self._apply(RestartDue(self._clock.now()))
        self._prepare()

    def _apply(self, event: EngineEvent) -> None:
        with self._changed:
            before = self._status
            try:
                self._status = advance(before, event)
            except ImpossibleEventError as error:
                log.error("%s", error)
        if self._status is not before:
            self._tell_all()

    def _tell_all(self) -> None:
        with self._changed:
            status, callbacks = self._status, tuple(self._callbacks)
            self._changed.notify_all()
        for callback in callbacks:
            try:
                callback(status)
            except Exception:
                log.exception("a subscriber of the engine's status failed")

    def _unsubscribe(self, callback: Callback) -> None:
        with self._changed:
            if callback in self._callbacks:
                self._callbacks.remove(callback)

    def _say(self, text: str, level: LogLevel | None = None) -> None:
        self._on_log("kvarn", text, level)
