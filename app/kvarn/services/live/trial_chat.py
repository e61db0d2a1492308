"""Asks the running engine one thing at a time and tells what has come back so far."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from kvarn.domain.live.chat_problem import ChatProblem
from kvarn.domain.live.chat_request import ChatRequest
from kvarn.domain.live.chat_stream import AnswerFigures
from kvarn.services.clock import Clock

if TYPE_CHECKING:
    from kvarn.services.live.trial_run import TrialRun


class TrialAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One answer as far as it has come."""

    text: str = ""
    reasoning: str = ""
    is_running: bool = True
    was_cancelled: bool = False
    finish: str = ""
    problem: ChatProblem | None = None
    ttft_ms: float | None = None
    """From sending to the first text, as we saw it: waiting for a slot and reading the prompt included."""
    figures: AnswerFigures = AnswerFigures()


class TrialChat:
    """One worker thread per answer. `ask` and `cancel` return at once and may be called from any thread.

    Subscribers hear that there is news, on the worker's thread, and not again before they called `take`: a fast
    engine does not flood them.
    """

    def __init__(self, *, clock: Clock, api_key: Callable[[], str | None] = lambda: None) -> None:
        self._clock, self._api_key = clock, api_key
        self._subscribers: list[Callable[[object], None]] = []
        self._runs: list[TrialRun] = []
        """The newest last; before it only those whose threads are still ending."""

    def subscribe(self, callback: Callable[[object], None]) -> Callable[[], None]:
        """Be told when `take` has something new; returns the unsubscriber."""
        self._subscribers.append(callback)
        return lambda: self._subscribers.remove(callback)

    def ask(self, request: ChatRequest) -> None:
        """Begin a new answer; one still running is given up."""
        # Imported here because httpx takes a fifth of the time until the window is up.
        from kvarn.services.live.trial_run import TrialRun

        self.cancel()
        run = TrialRun(request, self._api_key, self._clock, self._tell)
        self._runs = [old for old in self._runs if old.is_alive()] + [run]
        run.start()

    def take(self) -> TrialAnswer | None:
        """The newest answer as far as it has come; None before the first question."""
        return self._runs[-1].take() if self._runs else None

    def cancel(self) -> None:
        """Close the connection, so that the engine stops computing too."""
        for run in self._runs:
            run.cancel()

    def close(self, timeout_s: float = 2.0) -> None:
        """Give up what runs and wait for its thread."""
        self.cancel()
        for run in self._runs:
            run.join(timeout_s)

    def _tell(self) -> None:
        for callback in tuple(self._subscribers):
            callback(None)
