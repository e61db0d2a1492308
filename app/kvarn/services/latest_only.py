"""Answer only the newest of many questions, on a thread that lives no longer than there is work."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

log = logging.getLogger(__name__)

Question = TypeVar("Question")
Answer = TypeVar("Answer")


class LatestOnly(Generic[Question, Answer]):
    """Slow answers for a form that is edited quickly.

    A question overtaken before its turn is never worked on; one overtaken while it is worked on is
    answered into the void: the second argument of `answer` tells so, to give up early. `settle_s`
    waits for the editing to pause. `on_answer` runs on the worker.
    """

    def __init__(
        self,
        answer: Callable[[Question, Callable[[], bool]], Answer],
        on_answer: Callable[[Question, Answer], None],
        *,
        settle_s: float = 0.0,
        name: str = "latest-only",
    ) -> None:
        self._answer = answer
        self._on_answer = on_answer
        self._settle_s = settle_s
        self._name = name
        self._changed = threading.Condition()
        self._pending: tuple[Question] | None = None
        self._asked = 0
        self._thread: threading.Thread | None = None
        self._closed = False

    def ask(self, question: Question) -> None:
        """Replace whatever was asked before. Returns at once."""
        with self._changed:
            if self._closed:
                return
            self._pending = (question,)
            self._asked += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def forget(self) -> None:
        """Nobody wants an answer any more."""
        with self._changed:
            self._pending = None
            self._asked += 1
            self._changed.notify_all()

    def close(self, timeout_s: float = 2.0) -> None:
        """Forget, refuse further questions and wait for the worker to end."""
        self.forget()
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout_s)

    def _work(self) -> None:
        while (taken := self._take()) is not None:
            try:
                self._work_on(*taken)
            except Exception:
                # One question costs its own answer, not those of all later ones.
                log.exception("%s met a defect", self._name)

    def _work_on(self, number: int, question: Question) -> None:
        answer = self._answer(question, partial(self._is_overtaken, number))
        if not self._is_overtaken(number):
            self._on_answer(question, answer)

    def _is_overtaken(self, number: int) -> bool:
        with self._changed:
            return number != self._asked or self._closed

    def _take(self) -> tuple[int, Question] | None:
        """The newest question once nothing newer came for `settle_s`; None ends the worker."""
        with self._changed:
            number = -1
            while self._pending is not None and number != self._asked:
                number = self._asked
                if self._settle_s and not self._closed:
                    self._changed.wait_for(partial(self._is_overtaken, number), self._settle_s)
            if self._pending is None:
                self._thread = None
                return None
            (question,) = self._pending
            self._pending = None
            return number, question
