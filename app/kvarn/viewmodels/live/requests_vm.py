"""The last finished requests as rows of text; figures only, no prompt or answer."""

from __future__ import annotations

import time
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
        self._offset_s = wall() - (clock or SystemClock()).now()
        self._seen = -1
        self.columns = _without_accepted(_COLUMNS)
        self.rows: list[tuple[str, ...]] = []
        self.roles: dict[tuple[int, int], str] = {}

    def refresh(self) -> None:
        """Take new requests over, newest first."""
        if self._log.revision == self._seen:
            return
        self._seen = self._log.revision
        newest = self._log.latest(KEPT_ROWS)[::-1]
        speculates = any(request.acceptance is not None for request in newest)
        self.columns = _COLUMNS if speculates else _without_accepted(_COLUMNS)
        rows = (self._row(request) for request in newest)
        self.rows = [row if speculates else _without_accepted(row) for row in rows]
        self.roles = {(n, len(self.columns) - 1): "bad" for n, request in enumerate(newest) if request.error}
        self.changed.emit()

    def _row(self, r: FinishedRequest) -> tuple[str, ...]:
        when = time.strftime("%H:%M:%S", time.localtime(r.ended_s + self._offset_s))
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


def _without_accepted(cells: tuple[str, ...]) -> tuple[str, ...]:
    """Acceptance means nothing without speculation."""
    return cells[:_ACCEPTED] + cells[_ACCEPTED + 1 :]


def _speed(tok_per_s: float | None) -> str:
    return ABSENT if tok_per_s is None else f"{rate_text(tok_per_s)} tok/s"
