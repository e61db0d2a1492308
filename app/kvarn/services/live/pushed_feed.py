"""EngineFeed from our engine's `/live/stream`: one connection, as many looks as asked for, no work for its loop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager

import httpx
from httpx_sse import ServerSentEvent, SSEError

from kvarn.domain.live import quantities as q
from kvarn.domain.live.engine_meter import EngineFrame
from kvarn.domain.live.live_frame import frame_of
from kvarn.domain.live.live_state import LiveState, parse_live
from kvarn.domain.live.request import FinishedRequest
from kvarn.domain.live.request_wire import parse_requests
from kvarn.services.bounded_get import bounded_get
from kvarn.services.clock import Clock
from kvarn.services.live.bounded_events import bounded_events
from kvarn.services.live.engine_feed import FeedTrouble, TroubleKind
from kvarn.services.live.polling_feed import NO_CUDA_COUNTS, NO_LIVE_STATE, root_of, trouble_in

STREAM = "/live/stream"
TIMEOUT = httpx.Timeout(2.5, connect=1.0)
"""An event is due every second at least, whatever the engine is at; silence is a gap."""
MOST_EVENT_S = 5.0
"""So is an event that is not whole by then, however much comes."""
STREAMS_TAKEN = "other programs have taken all live streams of this engine"
UNREADABLE_STATE = "this engine's live state cannot be read"
MOST_UNREADABLE = 3
"""So many events in a row that cannot be read are no accident."""
NO_SPECULATION = "no speculation is running"


class PushedFeed:
    """Reads one stream; ends and opens it anew when the pace changes or it broke. Says so where there is none."""

    is_pushed = True

    def __init__(self, base_url: str, api_key: str | None, clock: Clock) -> None:
        headers = {"Accept-Encoding": "identity"} | ({"Authorization": f"Bearer {api_key}"} if api_key else {})
        # A proxy from the environment must not stand between us and our own engine.
        self._http = httpx.Client(base_url=root_of(base_url), headers=headers, timeout=TIMEOUT, trust_env=False)
        self._clock = clock
        self._per_s = self._open_per_s = 4
        self._stream: AbstractContextManager[httpx.Response] | None = None
        self._events: Iterator[ServerSentEvent] = iter(())
        self._time = EngineTime()
        self.finished_seq = 0
        """Number of the last finished request that has been taken over."""
        self._absent: dict[str, str] = {}
        self._dropped = 0
        self._unreadable = 0
        """Events in a row."""

    @property
    def absent(self) -> dict[str, str]:
        """Quantity -> sentence saying why this engine cannot tell it."""
        return dict(self._absent)

    @property
    def dropped(self) -> int:
        """Events that could not be read so far."""
        return self._dropped

    def pace(self, per_s: int) -> None:
        """So many looks a second from the next one on."""
        self._per_s = per_s

    def next_frame(self) -> EngineFrame | FeedTrouble:
        """Wait for the next event; never raises."""
        try:
            state = self._next_state()
            if isinstance(state, FeedTrouble):
                self._hang_up()
                return state
            frame = frame_of(state, self._time.at(state.now_ns, self._clock.now()), self._finished(state))
        except httpx.TimeoutException:
            trouble = FeedTrouble(TroubleKind.SILENT, "the engine does not answer in time")
        except SSEError:
            trouble = FeedTrouble(TroubleKind.NOT_OFFERED, NO_LIVE_STATE, lasts=True)
        except httpx.DecodingError as error:
            self._dropped += 1
            trouble = FeedTrouble(TroubleKind.UNREADABLE, f"{UNREADABLE_STATE}: {error}", lasts=True)
        except httpx.HTTPError as error:
            trouble = FeedTrouble(TroubleKind.UNREACHABLE, f"the engine cannot be reached ({error})")
        else:
            self._absent = _absences(state)
            return frame
        self._hang_up()
        return trouble

    def close(self) -> None:
        """Let go of the connection."""
        self._hang_up()
        self._http.close()

    def _next_state(self) -> LiveState | FeedTrouble:
        if self._stream is not None and self._open_per_s != self._per_s:
            self._hang_up()
        if self._stream is None and (trouble := self._open()):
            return trouble
        for event in self._events:
            if event.event == "end":
                break
            if state := parse_live(event.data):
                self._unreadable = 0
                return state
            self._dropped += 1
            self._unreadable += 1
            lasts = self._unreadable >= MOST_UNREADABLE
            return FeedTrouble(TroubleKind.UNREADABLE, UNREADABLE_STATE, lasts=lasts)
        return FeedTrouble(TroubleKind.UNREACHABLE, "the engine has ended its live stream")

    def _open(self) -> FeedTrouble | None:
        self._open_per_s = self._per_s
        stream = self._http.stream("GET", STREAM, params={"hz": self._per_s})
        response = stream.__enter__()
        self._stream = stream
        if response.status_code == httpx.codes.OK:
            self._events = bounded_events(response, MOST_EVENT_S)
            return None
        return self._refusal(response.status_code)

    def _refusal(self, status: int) -> FeedTrouble | None:
        """Not there, or every place taken: both leave the other way of looking."""
        if status == httpx.codes.SERVICE_UNAVAILABLE and self._answers("/live"):
            return FeedTrouble(TroubleKind.NOT_OFFERED, STREAMS_TAKEN, lasts=True)
        is_router = status == httpx.codes.SERVICE_UNAVAILABLE and self._answers("/health")
        if is_router or status in {httpx.codes.NOT_FOUND, httpx.codes.NOT_IMPLEMENTED}:
            return FeedTrouble(TroubleKind.NOT_OFFERED, NO_LIVE_STATE, lasts=True)
        return trouble_in(STREAM, status)

    def _answers(self, path: str) -> bool:
        return bounded_get(self._http, path).status == httpx.codes.OK

    def _hang_up(self) -> None:
        stream, self._stream, self._events = self._stream, None, iter(())
        if stream is not None:
            stream.__exit__(None, None, None)

    def _finished(self, state: LiveState) -> tuple[FinishedRequest, ...]:
        """Those that ended since the last look; asked for only when the state says that there are some."""
        if not state.requests.finished or state.requests.finished <= self.finished_seq:
            return ()
        try:
            answer = bounded_get(self._http, "/kvarn/requests", {"since": self.finished_seq})
        except httpx.HTTPError:
            return ()  # the next event tells of them again; the stream is as sound as before
        batch = parse_requests(answer.content, self._clock.now()) if answer.status == httpx.codes.OK else None
        if batch is None:
            self._dropped += 1
            return ()
        self.finished_seq = batch.last_seq
        return batch.requests


class EngineTime:
    """The engine's clock on ours. Events that waited in the socket keep the distance at which they were made."""

    def __init__(self) -> None:
        self._least_s = float("inf")
        """Ours less the engine's, of the event that was under way the shortest."""
        self._last_s = float("-inf")

    def at(self, engine_ns: int, now_s: float) -> float:
        """Monotonic seconds of ours at which an event that arrives now was made; never before the last one."""
        self._least_s = min(self._least_s, now_s - engine_ns / 1e9)
        self._last_s = max(self._last_s, engine_ns / 1e9 + self._least_s)
        return self._last_s


def _absences(state: LiveState) -> dict[str, str]:
    absent: dict[str, str] = {}
    if state.graphs is None or state.graphs.cuda is None:
        absent[q.CUDA_CAPTURED] = NO_CUDA_COUNTS
    if state.speculation is None:
        absent[q.SPECULATION_DEPTH] = NO_SPECULATION
    return absent
