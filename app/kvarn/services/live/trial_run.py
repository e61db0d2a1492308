"""One question to the engine and its streamed answer, on a thread of its own."""

from __future__ import annotations

import contextlib
import math
import socket
import threading
from collections.abc import Callable, Mapping
from typing import Any

import httpx
from httpx_sse import SSEError

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
from kvarn.domain.live.chat_stream import ChatStream
from kvarn.services.clock import Clock
from kvarn.services.live.bounded_events import bounded_events
from kvarn.services.live.trial_chat import TrialAnswer

TIMEOUT = httpx.Timeout(None, connect=5.0)
"""A long prompt on a slow machine is silent for minutes; Stop ends the waiting at any time."""


class TrialRun(threading.Thread):
    """Runs until the answer has ended or `cancel` hangs up; `tell` is called on this thread when there is news."""

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
        """The answer as far as it has come; the next news will be told again."""
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
        """Close the connection, so that the engine stops computing too."""
        with self._lock:
            if self._is_running:
                self._is_cancelled = True
                self._hang_up()

    def run(self) -> None:
        """Ask, and tell when it has ended."""
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
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream", "Accept-Encoding": "identity"}
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
            for event in bounded_events(response, math.inf):
                self._take_event(event.data, began_s)
                if self._stream.is_done or self._stream.problem:
                    break
        except SSEError:
            return unreadable("it is no event stream")
        except httpx.DecodingError as error:
            return unreadable(str(error))
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
