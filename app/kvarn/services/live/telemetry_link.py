"""The thread that looks at engine, machine and GPU and writes what it sees into the telemetry store."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import msgspec

from kvarn.domain.live import quantities as q
from kvarn.domain.live.crowding import is_crowded
from kvarn.domain.live.engine_meter import ENGINE_QUANTITIES, EngineFrame, EngineMeter
from kvarn.domain.live.live_state import LiveState
from kvarn.services.clock import Clock
from kvarn.services.live.engine_feed import EngineFeed, FeedTrouble, TroubleKind
from kvarn.services.live.gpu_probe import GpuProbe, GpuReading
from kvarn.services.live.machine_watch import MachineWatch
from kvarn.services.live.request_log import RequestLog
from kvarn.services.live.telemetry_store import TelemetryStore

log = logging.getLogger(__name__)

BUSY_S = 0.25
IDLE_S = 0.5
UNWATCHED_S = 1.0
"""Between two looks at an idle engine while nobody looks at us."""
WATCHED_PER_S = 4
CROWDED_PER_S = 2
UNWATCHED_PER_S = 1
"""How often an engine that sends by itself is to send: watched, watched with no core free, and unwatched."""
LONGEST_BACKOFF_S = 4.0
NOT_YET = "the engine has not answered yet"

MakeFeed = Callable[[str, str | None, Clock], EngineFeed]


def _offered(base_url: str, api_key: str | None, clock: Clock) -> EngineFeed:
    # Imported here because httpx takes a fifth of the time until the window is up.
    from kvarn.services.live.offered_feed import OfferedFeed

    return OfferedFeed(base_url, api_key, clock)


class LinkState(msgspec.Struct, frozen=True, kw_only=True):
    """How the link stands, as a frozen copy."""

    attached: bool = False
    connected: bool = False
    trouble: TroubleKind | None = None
    reason: str = "no engine is running"
    """A sentence while not connected; empty when all is well."""
    absent: dict[str, str] = msgspec.field(default_factory=dict)
    """Quantity -> why this engine or machine cannot tell it; `requests` for the list of finished requests."""
    frames: int = 0
    dropped_values: int = 0
    """Broken figures the engine sent, thrown away."""
    unlisted_requests: int = 0
    """Requests that ended but could not be told apart (engines without a request list)."""
    gpus: tuple[GpuReading, ...] = ()

    def why_missing(self, name: str) -> str:
        """Why there is no figure of that name although an engine is ready; empty when it is only not there yet.

        The thread takes up an engine a moment after it has become ready.
        """
        return self.absent.get(name, "") or (self.reason if self.attached else NOT_YET)


class _Engine:
    """What belongs to one attachment."""

    def __init__(self, feed: EngineFeed, pid: int) -> None:
        self.feed = feed
        self.pid = pid
        self.meter = EngineMeter()
        self.backoff_s = 0.0


class TelemetryLink:
    """Takes what the engine sends 4 times a second, or looks twice, 4 times while it works; at machine and GPU once.

    `attach` and `detach` return at once; the thread starts with `start` or the first `attach` and ends with
    `close`. Without an engine it goes on reading the machine.
    """

    def __init__(
        self,
        store: TelemetryStore,
        requests: RequestLog,
        *,
        clock: Clock,
        gpu_probe: GpuProbe | None = None,
        make_feed: MakeFeed = _offered,
    ) -> None:
        self._store = store
        self._requests = requests
        self._clock = clock
        self._machine = MachineWatch(store, clock, gpu_probe)
        self.is_watched = True
        """False while no window shows the figures: the engine is then looked at less often."""
        self._engine_due_s = float("-inf")
        self._make_feed = make_feed
        self._lock = threading.Lock()
        self._wanted: tuple[str, int, str | None] | None = None
        self._engine: _Engine | None = None
        self._changed = False
        self._closing = False
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._state = LinkState()
        self._live: LiveState | None = None

    @property
    def state(self) -> LinkState:
        """How the link stands now."""
        return self._state

    @property
    def live(self) -> LiveState | None:
        """The newest live state of an engine that tells it; None without one, and while it cannot be reached."""
        return self._live

    @property
    def gpu_every_s(self) -> float:
        """Seconds between looks at the GPU; may be changed at any time."""
        return self._machine.gpu_every_s

    @gpu_every_s.setter
    def gpu_every_s(self, seconds: float) -> None:
        self._machine.gpu_every_s = seconds

    def start(self) -> None:
        """Begin reading the machine; a second call does nothing."""
        with self._lock:
            if self._thread is None and not self._closing:
                self._thread = threading.Thread(target=self._run, name="kvarn-telemetry", daemon=True)
                self._thread.start()

    def attach(self, base_url: str, pid: int, api_key: str | None = None) -> None:
        """Look at this engine from now on, in place of any other."""
        self._want((base_url, pid, api_key))
        self.start()

    def detach(self) -> None:
        """Look at no engine; its lines end in a gap."""
        self._want(None)

    def close(self, timeout_s: float = 3.0) -> None:
        """End the thread and let go of engine and driver; waits that long for a look in progress."""
        with self._lock:
            self._closing = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout_s)
        self._machine.close()

    def _want(self, engine: tuple[str, int, str | None] | None) -> None:
        with self._lock:
            self._wanted, self._changed = engine, True
        self._wake.set()

    def _run(self) -> None:
        while not self._closing:
            self._wake.clear()
            try:
                pause_s = self._look()
            except Exception:
                # One reading nobody foresaw must not end the measuring for the rest of the session.
                log.exception("the telemetry met a defect")
                pause_s = LONGEST_BACKOFF_S
            self._wake.wait(pause_s)
        self._let_go()

    def _look(self) -> float:
        """Whatever is due; returns the seconds until something is again."""
        if self._take_wish():
            self._machine.due_s = self._engine_due_s = self._clock.now()
        if self._clock.now() >= self._machine.due_s:
            self._look_at_machine()
        if self._engine is not None and self._clock.now() >= self._engine_due_s:
            self._engine_due_s = self._clock.now() + self._look_at_engine(self._engine)
        next_s = self._machine.due_s if self._engine is None else min(self._machine.due_s, self._engine_due_s)
        return max(0.0, next_s - self._clock.now())

    def _take_wish(self) -> bool:
        with self._lock:
            changed, self._changed, wanted = self._changed, False, self._wanted
        if changed:
            self._let_go()
            if wanted is not None:
                base_url, pid, api_key = wanted
                self._engine = _Engine(self._make_feed(base_url, api_key, self._clock), pid)
                self._store.begin_run(self._clock.now())
                self._set(attached=True, reason=NOT_YET)
        return changed

    def _let_go(self) -> None:
        if self._engine is not None:
            self._engine.feed.close()
            self._engine = None
            self._engine_gap()
        self._state = LinkState(gpus=self._state.gpus, absent=self._machine.absent)

    def _look_at_engine(self, engine: _Engine) -> float:
        """One look; returns the seconds until the next."""
        engine.feed.pace(self._per_s())
        frame = engine.feed.next_frame()
        if isinstance(frame, FeedTrouble):
            self._engine_gap()
            self._set(connected=False, trouble=frame.kind, reason=frame.message)
            engine.backoff_s = min(max(engine.backoff_s * 2, BUSY_S), LONGEST_BACKOFF_S)
            return engine.backoff_s
        engine.backoff_s = 0.0
        self._record(engine, frame)
        self._set(
            connected=True,
            trouble=None,
            reason="",
            absent=engine.feed.absent | self._machine.absent,
            frames=self._state.frames + 1,
            dropped_values=engine.feed.dropped,
            unlisted_requests=engine.meter.unlisted_requests,
        )
        if engine.feed.is_pushed:
            return 0.0  # the next look is the wait for what the engine sends
        if self._store.latest(q.REQUESTS_PROCESSING):
            return BUSY_S
        return IDLE_S if self.is_watched else UNWATCHED_S

    def _per_s(self) -> int:
        if not self.is_watched:
            return UNWATCHED_PER_S
        return CROWDED_PER_S if is_crowded(self._store, self._clock.now()) else WATCHED_PER_S

    def _look_at_machine(self) -> None:
        self._machine.look(self._engine.pid if self._engine else None)
        engine_absent = self._engine.feed.absent if self._engine else {}
        self._set(gpus=self._machine.cards, absent=engine_absent | self._machine.absent)

    def _record(self, engine: _Engine, frame: EngineFrame) -> None:
        self._live = frame.live
        metering = engine.meter.read(frame)
        for point in metering.points:
            self._store.put(point.name, point.t_s, point.value)
        for request in metering.finished:
            self._requests.append(request)
            if request.decode_tok_per_s is not None:
                self._store.append(q.ANSWER_TOK_PER_S, request.ended_s, request.decode_tok_per_s)
        for reason in metering.rebuilds:
            self._store.mark(frame.t_s, "rebuild", reason)

    def _engine_gap(self) -> None:
        self._live = None
        now = self._clock.now()
        for name in ENGINE_QUANTITIES:
            self._store.gap(name, now)

    def _set(self, **changes: object) -> None:
        self._state = msgspec.structs.replace(self._state, **changes)
