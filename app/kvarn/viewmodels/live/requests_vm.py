"""The last finished requests as rows of text; figures only, no prompt or answer."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from PySide6.QtCore import QObject, Signal

from kvarn.domain.live.request import FinishedRequest
from kvarn.domain.quantity_text import count_text
from kvarn.domain.time_text import ABSENT, rate_text
from kvarn.services.clock import Clock, SystemClock
from kvarn.services.live.request_log import RequestLog

_COLUMNS = ("<time", "prompt", "cached", "generated", "TTFT", "prefill", "decode", "accepted", "<outcome")
_ACCEPTED = 7
KEPT_ROWS = 100


class RequestsVm(QObject):
    """`refresh` looks for news; `changed` says the rows differ."""

    changed = Signal()

    def __init__(
        self,
        log: RequestLog,
        *,
        clock: Clock | None = None,
        wall: Callable[[], float] = time.time,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._log = log
        self._clock, self._wall = clock or SystemClock(), wall
        self._seen = 0
        self._shown: deque[tuple[str, FinishedRequest]] = deque(maxlen=KEPT_ROWS)
        """Newest first, each with its time of day as of then: the monotonic clock sleeps with the machine."""
        self.columns = _without_accepted(_COLUMNS)
        self.rows: list[tuple[str, ...]] = []
        self.roles: dict[tuple[int, int], str] = {}

    def refresh(self) -> None:
        """Take new requests over, newest first."""
        if self._log.revision == self._seen:
            return
        offset_s = self._wall() - self._clock.now()
        new, self._seen = self._log.since(self._seen)
        for request in new:
            self._shown.appendleft((_time_of_day(request.ended_s + offset_s), request))
        speculates = any(request.acceptance is not None for _, request in self._shown)
        self.columns = _COLUMNS if speculates else _without_accepted(_COLUMNS)
        rows = (_row(when, request) for when, request in self._shown)
        self.rows = [row if speculates else _without_accepted(row) for row in rows]
        self.roles = {(n, len(self.columns) - 1): "bad" for n, (_, request) in enumerate(self._shown) if request.error}
        self.changed.emit()


def _row(when: str, r: FinishedRequest) -> tuple[str, ...]:
    return (
        when,
        count_text(r.prompt_tokens),
        count_text(r.cached_tokens),
        count_text(r.generated_tokens),
        ABSENT if r.ttft_ms is None else f"{r.ttft_ms:,.0f} ms",
        _speed(r.prefill_tok_per_s),
        _speed(r.decode_tok_per_s),
        ABSENT if r.acceptance is None else f"{r.acceptance:.0%}".replace("%", " %"),
        r.error or "complete",
    )


def _time_of_day(wall_s: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(wall_s))


def _without_accepted(cells: tuple[str, ...]) -> tuple[str, ...]:
    """Acceptance means nothing without speculation."""
    return cells[:_ACCEPTED] + cells[_ACCEPTED + 1 :]


def _speed(tok_per_s: float | None) -> str:
    return ABSENT if tok_per_s is None else f"{rate_text(tok_per_s)} tok/s"
