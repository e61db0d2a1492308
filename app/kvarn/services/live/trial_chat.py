"""Asks the running engine one thing at a time and tells what has come back so far."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Mapping
from typing import Any

import httpx
import msgspec
from httpx_sse import EventSource, SSEError

from kvarn.domain.errors import SettingsError
from kvarn.domain.live.chat_problem import (
    LOST,
    UNREACHABLE,
    WRONG_KEY,
    ChatProblem,
    problem_of_reply,
    unreadable,
)
from kvarn.domain.live.chat_request import PATH, ChatRequest
from kvarn.domain.live.chat_stream import AnswerFigures, ChatStream
from kvarn.services.clock import Clock

TIMEOUT = httpx.Timeout(None, connect=5.0)
"""A long prompt on a slow machine is silent for minutes; Stop ends the waiting at any time."""


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
        self._runs: list[_Run] = []
        """The newest last; before it only those whose threads are still ending."""

    def subscribe(self, callback: Callable[[object], None]) -> Callable[[], None]:
        """Be told when `take` has something new; returns the unsubscriber."""
        self._subscribers.append(callback)
        return lambda: self._subscribers.remove(callback)

    def ask(self, request: ChatRequest) -> None:
        """Begin a new answer; one still running is given up."""
        self.cancel()
        run = _Run(request, self._api_key, self._clock, self._tell)
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


class _Run(threading.Thread):
    """One answer."""

    def __init__(
        self, request: ChatRequest, api_key: Callable[[], str | None], clock: Clock, tell: Callable[[], None]
    ) -> None:
        super().__init__(name="kvarn-trial", daemon=True)
        self._request, self._api_key, self._clock, self._on_news = request, api_key, clock, tell
        self._lock = threading.Lock()
        self._stream = ChatStream()
        self._socket: socket.socket | None = None
        self._is_running, self._is_cancelled, self._is_told = True, False, False
        self._problem: ChatProblem | None = None
        self._ttft_ms: float | None = None

    def take(self) -> TrialAnswer:
        with self._lock:
            self._is_told = False
            stream = self._stream
            return TrialAnswer(
                text=stream.text,
                reasoning=stream.reasoning,
                is_running=self._is_running,
                was_cancelled=self._is_cancelled and not self._is_running,
                finish=stream.finish,
                problem=self._problem,
                ttft_ms=self._ttft_ms,
                figures=stream.figures,
            )

    def cancel(self) -> None:
        with self._lock:
            if self._is_running:
                self._is_cancelled = True
                self._hang_up()

    def run(self) -> None:
        problem = self._ask()
        with self._lock:
            self._is_running = False
            self._socket = None
            self._problem = None if self._is_cancelled else problem
        self._tell()

    def _ask(self) -> ChatProblem | None:
        try:
            key = self._api_key()
        except SettingsError:
            return WRONG_KEY
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}
        headers |= {"Authorization": f"Bearer {key}"} if key else {}
        began_s = self._clock.now()
        try:
            # Loopback never goes through a proxy the user may have set for the web.
            with (
                httpx.Client(timeout=TIMEOUT, trust_env=False) as http,
                http.stream(
                    "POST",
                    self._request.base_url + PATH,
                    content=self._request.body.encode(),
                    headers=headers,
                    extensions={"trace": self._on_trace},
                ) as response,
            ):
                return self._read(response, began_s)
        except httpx.ConnectError:
            return UNREACHABLE
        except (httpx.HTTPError, OSError):
            return None if self._stream.has_ended else LOST

    def _read(self, response: httpx.Response, began_s: float) -> ChatProblem | None:
        if response.status_code != httpx.codes.OK:
            response.read()
            return problem_of_reply(response.status_code, response.text)
        try:
            for event in EventSource(response).iter_sse():
                self._take_event(event.data, began_s)
                if self._stream.is_done or self._stream.problem:
                    break
        except SSEError:
            return unreadable("it is no event stream")
        return self._stream.problem or (None if self._stream.has_ended else LOST)

    def _take_event(self, data: str, began_s: float) -> None:
        with self._lock:
            self._stream.read(data)
            if self._ttft_ms is None and (self._stream.text or self._stream.reasoning):
                self._ttft_ms = 1000 * (self._clock.now() - began_s)
        self._tell()

    def _tell(self) -> None:
        with self._lock:
            told, self._is_told = self._is_told, True
        if not told or not self._is_running:
            self._on_news()

    def _on_trace(self, event: str, info: Mapping[str, Any]) -> None:
        """httpcore's own account of a request: the only way to its socket before the first byte came back."""
        if event != "connection.connect_tcp.complete":
            return
        with self._lock:
            self._socket = info["return_value"].get_extra_info("socket")
            if self._is_cancelled:
                self._hang_up()

    def _hang_up(self) -> None:
        """Wake the worker out of its reading: closing alone would leave it there."""
        if self._socket is not None:
            with contextlib.suppress(OSError):  # gone already
                self._socket.shutdown(socket.SHUT_RDWR)
