"""The thread that looks at engine, machine and GPU and writes what it sees into the telemetry store."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import msgspec

from kvarn.domain.live import quantities as q
from kvarn.domain.live.engine_meter import ENGINE_QUANTITIES, EngineFrame, EngineMeter
from kvarn.services.clock import Clock
from kvarn.services.live.engine_feed import EngineFeed, FeedTrouble, TroubleKind
from kvarn.services.live.gpu_probe import GpuProbe, GpuReading
from kvarn.services.live.machine_probe import MachineProbe, MachineReading
from kvarn.services.live.request_log import RequestLog
from kvarn.services.live.telemetry_store import TelemetryStore

log = logging.getLogger(__name__)

BUSY_S = 0.25
IDLE_S = 0.5
UNWATCHED_S = 1.0
"""Between two looks at an idle engine while nobody looks at us."""
MACHINE_S = 1.0
LONGEST_BACKOFF_S = 4.0

_MACHINE = {
    q.SYSTEM_RAM_TOTAL_BYTES: "ram_total_bytes",
    q.SYSTEM_RAM_USED_BYTES: "ram_used_bytes",
    q.SYSTEM_CPU_PERCENT: "cpu_percent",
    q.ENGINE_RSS_BYTES: "engine_rss_bytes",
    q.ENGINE_MAPPED_BYTES: "engine_mapped_bytes",
    q.ENGINE_PRIVATE_BYTES: "engine_private_bytes",
    q.ENGINE_CPU_PERCENT: "engine_cpu_percent",
}
_GPU_SUMS = {
    q.VRAM_TOTAL_BYTES: "memory_total_bytes",
    q.VRAM_USED_BYTES: "memory_used_bytes",
    q.VRAM_ENGINE_BYTES: "engine_memory_bytes",
    q.GPU_POWER_W: "power_w",
}
_GPU_PEAKS = {
    q.GPU_UTIL_PERCENT: "utilization_percent",
    q.GPU_TEMPERATURE_C: "temperature_c",
    q.GPU_CLOCK_MHZ: "clock_mhz",
}

MakeFeed = Callable[[str, str | None, Clock], EngineFeed]


def _polling(base_url: str, api_key: str | None, clock: Clock) -> EngineFeed:
    # Imported here because httpx takes a fifth of the time until the window is up.
    from kvarn.services.live.polling_feed import PollingFeed

    return PollingFeed(base_url, api_key, clock)


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


class _Engine:
    """What belongs to one attachment."""

    def __init__(self, feed: EngineFeed, pid: int) -> None:
        self.feed = feed
        self.pid = pid
        self.meter = EngineMeter()
        self.backoff_s = 0.0


class TelemetryLink:
    """Looks at the engine 2 times a second, 4 while it works; at machine and GPU once a second.

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
        make_feed: MakeFeed = _polling,
    ) -> None:
        self._store = store
        self._requests = requests
        self._clock = clock
        self._gpu = gpu_probe
        self.gpu_every_s = MACHINE_S
        """Seconds between looks at the GPU; may be changed at any time."""
        self.is_watched = True
        """False while no window shows the figures: an idle engine is then asked less often."""
        self._machine_due_s = self._engine_due_s = self._gpu_due_s = float("-inf")
        self._machine = MachineProbe()
        self._make_feed = make_feed
        self._lock = threading.Lock()
        self._wanted: tuple[str, int, str | None] | None = None
        self._engine: _Engine | None = None
        self._changed = False
        self._closing = False
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._state = LinkState()
        self._gpu_absent: dict[str, str] = {}

    @property
    def state(self) -> LinkState:
        """How the link stands now."""
        return self._state

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
        if self._gpu is not None:
            self._gpu.close()

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
            self._machine_due_s = self._engine_due_s = self._clock.now()
        if self._clock.now() >= self._machine_due_s:
            self._machine_due_s = self._clock.now() + MACHINE_S
            self._look_at_machine()
        if self._engine is not None and self._clock.now() >= self._engine_due_s:
            self._engine_due_s = self._clock.now() + self._look_at_engine(self._engine)
        next_s = self._machine_due_s if self._engine is None else min(self._machine_due_s, self._engine_due_s)
        return max(0.0, next_s - self._clock.now())

    def _take_wish(self) -> bool:
        with self._lock:
            changed, self._changed, wanted = self._changed, False, self._wanted
        if changed:
            self._let_go()
            if wanted is not None:
                base_url, pid, api_key = wanted
                self._engine = _Engine(self._make_feed(base_url, api_key, self._clock), pid)
                self._set(attached=True, reason="the engine has not answered yet")
        return changed

    def _let_go(self) -> None:
        if self._engine is not None:
            self._engine.feed.close()
            self._engine = None
            self._engine_gap()
        self._state = LinkState(gpus=self._state.gpus, absent=self._gpu_absent)

    def _look_at_engine(self, engine: _Engine) -> float:
        """One look; returns the seconds until the next."""
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
            absent=engine.feed.absent | self._gpu_absent,
            frames=self._state.frames + 1,
            dropped_values=engine.feed.dropped,
            unlisted_requests=engine.meter.unlisted_requests,
        )
        if self._store.latest(q.REQUESTS_PROCESSING):
            return BUSY_S
        return IDLE_S if self.is_watched else UNWATCHED_S

    def _record(self, engine: _Engine, frame: EngineFrame) -> None:
        metering = engine.meter.read(frame)
        for point in metering.points:
            self._put(point.name, point.t_s, point.value)
        for request in metering.finished:
            self._requests.append(request)
        for reason in metering.rebuilds:
            self._store.mark(frame.t_s, "rebuild", reason)

    def _look_at_machine(self) -> None:
        pid = self._engine.pid if self._engine else None
        machine, t_s = self._machine.read(pid), self._clock.now()
        self._put_fields(_MACHINE, machine, t_s)
        # Looks come every second: an interval between two of them waits for the next.
        if self._gpu is None or t_s < self._gpu_due_s:
            return
        self._gpu_due_s = t_s + self.gpu_every_s - MACHINE_S / 2
        cards = self._gpu.read(pid)
        for fields, combine in ((_GPU_SUMS, sum), (_GPU_PEAKS, max)):
            for name, field in fields.items():
                told = [value for card in cards if (value := getattr(card, field)) is not None]
                self._put(name, t_s, float(combine(told)) if told else None)
        self._gpu_absent = _absence(cards, self._gpu.reason)
        engine_absent = self._engine.feed.absent if self._engine else {}
        self._set(gpus=cards, absent=engine_absent | self._gpu_absent)

    def _put_fields(self, fields: dict[str, str], reading: MachineReading, t_s: float) -> None:
        for name, field in fields.items():
            self._put(name, t_s, getattr(reading, field))

    def _put(self, name: str, t_s: float, value: float | None) -> None:
        if value is None:
            self._store.gap(name, t_s)
        else:
            self._store.append(name, t_s, value)

    def _engine_gap(self) -> None:
        now = self._clock.now()
        for name in ENGINE_QUANTITIES:
            self._store.gap(name, now)

    def _set(self, **changes: object) -> None:
        self._state = msgspec.structs.replace(self._state, **changes)


def _absence(cards: tuple[GpuReading, ...], reason: str) -> dict[str, str]:
    """Why each GPU quantity no card tells is absent."""
    fields = _GPU_SUMS | _GPU_PEAKS
    untold = {name: field for name, field in fields.items() if all(getattr(card, field) is None for card in cards)}
    return {name: next((c.reasons[f] for c in cards if f in c.reasons), reason) for name, f in untold.items()}
