"""EngineFeed by polling /slots, /metrics and, on our engine, /kvarn/requests."""

from __future__ import annotations

from typing import NamedTuple

import httpx

from kvarn.domain.live import quantities as q
from kvarn.domain.live.engine_counters import EngineCounters
from kvarn.domain.live.engine_meter import EngineFrame
from kvarn.domain.live.exposition import parse_exposition
from kvarn.domain.live.live_meter import LIVE_QUANTITIES
from kvarn.domain.live.request import FinishedRequest
from kvarn.domain.live.request_wire import parse_requests
from kvarn.domain.live.slots import SlotSample, parse_slots
from kvarn.services.bounded_get import Answer, bounded_get
from kvarn.services.clock import Clock
from kvarn.services.live.engine_feed import FeedTrouble, TroubleKind

TIMEOUT = httpx.Timeout(2.0, connect=1.0)
"""The engine answers within milliseconds unless it saves a state; then a gap is the truth."""

NO_METRICS = "this engine was started without --metrics"
NO_SLOTS = "this engine was started with --no-slots"
NO_GRAPH_COUNTS = "this engine does not count graph builds; Kvarn's own engine does"
NO_CUDA_COUNTS = "this engine does not count CUDA graph captures"
NO_LIVE_STATE = "this engine does not tell its live state; Kvarn's own engine does"
REQUESTS = "requests"
"""Key in `absent` for the list of finished requests, which is no series."""
NO_REQUESTS = (
    "this engine keeps no list of finished requests: those that end one at a time are told from its counters, "
    "without time to first token"
)

_OF_SLOTS = (q.DECODE_TOK_PER_S, q.DECODE_RAW_TOK_PER_S, q.PREFILL_TOK_PER_S, q.CONTEXT_TOKENS_USED)
_OF_METRICS = (q.REQUESTS_DEFERRED, q.DRAFT_ACCEPTANCE, q.GRAPH_BUILT, q.GRAPH_REUSED, q.GRAPH_BUILT_TOTAL)


class _Page(NamedTuple):
    """What one GET brought: a body, or trouble, or neither when the engine does not offer the page."""

    body: bytes | None
    trouble: FeedTrouble | None = None


class PollingFeed:
    """Looks at any llama-server whenever asked. /slots comes first: totals read later include all it shows as ended."""

    def __init__(
        self,
        base_url: str,
        api_key: str | None,
        clock: Clock,
        *,
        finished_seq: int = 0,
        why_no_live_state: str = NO_LIVE_STATE,
    ) -> None:
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        # A proxy from the environment must not stand between us and our own engine.
        self._http = httpx.Client(base_url=root_of(base_url), headers=headers, timeout=TIMEOUT, trust_env=False)
        self._clock = clock
        self._missing: set[str] = set()
        self._after = finished_seq
        self._why_no_live_state = why_no_live_state
        self._absent: dict[str, str] = {}
        self._dropped = 0

    is_pushed = False

    def pace(self, per_s: int) -> None:
        """The caller paces us."""

    @property
    def absent(self) -> dict[str, str]:
        """Quantity -> sentence saying why this engine cannot tell it."""
        return dict(self._absent)

    @property
    def dropped(self) -> int:
        """Broken values and unreadable pages thrown away so far."""
        return self._dropped

    def next_frame(self) -> EngineFrame | FeedTrouble:
        """One look at all pages; never raises."""
        pages: dict[str, bytes | None] = {}
        t_s = self._clock.now()
        for path in ("/slots", "/metrics", "/kvarn/requests"):
            page = self._get(path, {"since": self._after} if path == "/kvarn/requests" else None)
            if page.trouble:
                return page.trouble
            pages[path] = page.body
            t_s = self._clock.now() if path == "/slots" else t_s
        slots, counters = self._slots(pages["/slots"]), self._counters(pages["/metrics"])
        finished = self._finished(pages["/kvarn/requests"], t_s)
        self._absent = self._absences(counters)
        return EngineFrame(t_s=t_s, slots=slots, counters=counters, finished=finished)

    def close(self) -> None:
        """Let go of the connection."""
        self._http.close()

    def _get(self, path: str, query: dict[str, int] | None = None) -> _Page:
        if path in self._missing:
            return _Page(None)
        try:
            answer = self._ask(path, query)
        except httpx.TimeoutException:
            return _Page(None, FeedTrouble(TroubleKind.SILENT, "the engine does not answer in time"))
        except httpx.HTTPError as error:
            return _Page(None, FeedTrouble(TroubleKind.UNREACHABLE, f"the engine cannot be reached ({error})"))
        if answer.status in {404, 501}:
            self._missing.add(path)
            return _Page(None)
        return _Page(answer.content, trouble_in(path, answer.status))

    def _ask(self, path: str, query: dict[str, int] | None) -> Answer:
        try:
            return bounded_get(self._http, path, query)
        except httpx.RemoteProtocolError:
            return bounded_get(self._http, path, query)  # the engine closed the idle connection just as we used it

    def _slots(self, page: bytes | None) -> tuple[SlotSample, ...] | None:
        slots = parse_slots(page) if page is not None else None
        self._dropped += page is not None and slots is None
        return slots

    def _counters(self, page: bytes | None) -> EngineCounters | None:
        counters = parse_exposition(page.decode("utf-8", "replace")) if page is not None else None
        self._dropped += counters.dropped if counters else 0
        return counters

    def _finished(self, page: bytes | None, t_s: float) -> tuple[FinishedRequest, ...] | None:
        batch = parse_requests(page, t_s) if page is not None else None
        if batch is None:
            self._dropped += page is not None
            return None
        self._after = batch.last_seq
        return batch.requests

    def _absences(self, counters: EngineCounters | None) -> dict[str, str]:
        absent = dict.fromkeys(LIVE_QUANTITIES, self._why_no_live_state)
        if "/slots" in self._missing:
            absent |= dict.fromkeys(_OF_SLOTS, NO_SLOTS)
        if "/metrics" in self._missing:
            absent |= dict.fromkeys(_OF_METRICS, NO_METRICS)
        elif counters and counters.graph_built is None:
            absent |= dict.fromkeys((q.GRAPH_BUILT, q.GRAPH_REUSED, q.GRAPH_BUILT_TOTAL), NO_GRAPH_COUNTS)
        if counters and counters.cuda_captured is None:
            absent[q.CUDA_CAPTURED] = NO_CUDA_COUNTS
        if "/kvarn/requests" in self._missing:
            absent[REQUESTS] = NO_REQUESTS
        return absent


def root_of(base_url: str) -> str:
    """The engine's root from its endpoint: without `/v1`, and an address one can connect to."""
    url = httpx.URL(base_url.rstrip("/").removesuffix("/v1"))
    any_address = {"0.0.0.0": "127.0.0.1", "::": "::1"}
    return str(url.copy_with(host=any_address.get(url.host, url.host)))


def trouble_in(path: str, code: int) -> FeedTrouble | None:
    """What an answer with this status means for a look; None for 200."""
    if code == 200:
        return None
    if code in {401, 403}:
        return FeedTrouble(TroubleKind.WRONG_KEY, "the engine is up but refuses our API key: wrong key")
    if code == 503:
        return FeedTrouble(TroubleKind.LOADING, "the engine is still loading the model")
    return FeedTrouble(TroubleKind.UNREADABLE, f"the engine answered {code} to {path}")
