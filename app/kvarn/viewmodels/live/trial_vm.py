"""One conversation with the running engine: what was said, what is being said, what it cost. Kept nowhere."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer, Signal

from kvarn.domain.errors import SettingsError
from kvarn.domain.launch.engine_status import EnginePhase
from kvarn.domain.live.chat_problem import ChatProblem
from kvarn.domain.live.chat_request import MOST_ANSWER_TOKENS, ChatRequest, ChatTurn, curl_text
from kvarn.domain.live.chat_stream import whole
from kvarn.domain.quantity_text import ABSENT, count_text
from kvarn.domain.time_text import rate_text
from kvarn.services.live.trial_chat import TrialAnswer, TrialChat
from kvarn.viewmodels.bridge import Bridge
from kvarn.viewmodels.launch.engine_vm import EngineVm

REFRESH_MS = 100
"""Text reaches the window at most ten times a second."""
_CONTEXT_STEP = 1024


class TrialVm(QObject):
    """`changed` says that something here reads differently; at most ten times a second while an answer streams."""

    changed = Signal()
    returned = Signal(str)
    """A question that got no word of an answer: it belongs back into the prompt line."""
    context_wanted = Signal(int)
    """Somebody asked for a context of that many tokens a conversation."""

    def __init__(
        self,
        chat: TrialChat,
        engine: EngineVm,
        *,
        api_key: Callable[[], str | None] = lambda: None,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._chat, self._engine, self._api_key = chat, engine, api_key
        self._said: tuple[ChatTurn, ...] = ()
        self.curl = ""
        """The last request as a command; empty before the first."""
        self._answer: TrialAnswer | None = None
        self._has_news = False
        self._bridge = Bridge(chat.subscribe, self)
        self._bridge.received.connect(self._on_news)
        self._pause = QTimer(self, singleShot=True, interval=REFRESH_MS)
        self._pause.timeout.connect(self._on_pause_over)
        engine.changed.connect(self.changed)

    @property
    def turns(self) -> tuple[ChatTurn, ...]:
        """The conversation, the unfinished answer last."""
        answer = self._answer
        if answer is None or not answer.is_running or not (answer.text or answer.reasoning):
            return self._said
        return (*self._said, _turn_of(answer))

    @property
    def is_answering(self) -> bool:
        """True from Send until the answer has ended."""
        return self._answer is not None and self._answer.is_running

    @property
    def is_served(self) -> bool:
        """True while there is an engine to ask."""
        return self._engine.status.phase is EnginePhase.READY

    @property
    def can_send(self) -> bool:
        """One question at a time."""
        return self.is_served and not self.is_answering

    @property
    def is_loading(self) -> bool:
        """True while an engine is on its way."""
        return self._engine.status.is_active and not self.is_served

    @property
    def last_answer(self) -> str:
        """The newest answer's text, letter for letter; empty when there is none."""
        return next((turn.text for turn in reversed(self.turns) if turn.role == "assistant"), "")

    @property
    def problem(self) -> ChatProblem | None:
        """Why the last answer is not whole."""
        return self._answer.problem if self._answer else None

    @property
    def state(self) -> str:
        """What is going on, or how the last answer ended; empty when it simply ended."""
        answer = self._answer
        if answer is None or answer.problem is not None:
            return ""
        if answer.is_running:
            return _activity(answer)
        if answer.was_cancelled:
            return "Stopped. The engine tells its counts only at the end of an answer."
        return _ending(answer)

    @property
    def figures(self) -> tuple[tuple[str, str], ...]:
        """(name, value with unit) of the last finished answer; empty before."""
        answer = self._answer
        if answer is None or answer.is_running or not (answer.text or answer.reasoning or answer.finish):
            return ()
        f = answer.figures
        cached = f" ({count_text(f.cached_tokens)} cached)" if f.cached_tokens else ""
        return (
            ("prompt", _tokens(f.prompt_tokens) + cached),
            ("generated", _tokens(f.generated_tokens)),
            ("TTFT", ABSENT if answer.ttft_ms is None else f"{answer.ttft_ms:,.0f} ms"),
            ("prefill", _speed(f.prefill_tok_per_s)),
            ("decode", _speed(f.decode_tok_per_s)),
        )

    @property
    def context_offer(self) -> int | None:
        """A context that would hold the conversation and its answer, after it was refused as too long."""
        needed = self.problem.needed_tokens if self.problem else None
        return None if needed is None else -(-(needed + MOST_ANSWER_TOKENS) // _CONTEXT_STEP) * _CONTEXT_STEP

    def send(self, text: str) -> bool:
        """Ask; False, and nothing happens, when nobody can be asked or there is nothing to say."""
        plan = self._engine.status.plan
        if not self.can_send or plan is None or not text.strip():
            return False
        self._said = (*self._said, ChatTurn("user", whole(text)))
        request = ChatRequest(plan.base_url, self._said)
        self.curl = curl_text(request, with_key=self._has_key())
        self._answer = TrialAnswer()
        self._chat.ask(request)
        self.changed.emit()
        return True

    def stop(self) -> None:
        """End the answer where it is; the connection closes at once."""
        self._chat.cancel()

    def clear(self) -> None:
        """Forget the conversation."""
        self._chat.cancel()
        self._said, self.curl, self._answer = (), "", None
        self.changed.emit()

    def want_context(self) -> None:
        """Take the offer of a larger context."""
        if self.context_offer is not None:
            self.context_wanted.emit(self.context_offer)

    def close(self) -> None:
        """Hear nothing more and end what runs."""
        self._bridge.close()
        self._pause.stop()
        self._chat.close()

    def _on_news(self, _news: object) -> None:
        if self._pause.isActive():
            self._has_news = True
        else:
            self._take()

    def _on_pause_over(self) -> None:
        if self._has_news:
            self._take()

    def _take(self) -> None:
        self._has_news = False
        self._pause.start()
        answer = self._chat.take()
        if not self.is_answering or answer is None:
            return  # cleared meanwhile
        self._answer = answer
        if not answer.is_running:
            self._settle(answer)
        self.changed.emit()

    def _settle(self, answer: TrialAnswer) -> None:
        """An answer joins the conversation; a question without any leaves it again."""
        if answer.text or answer.reasoning or answer.finish:
            self._said = (*self._said, _turn_of(answer))
        else:
            self._said, question = self._said[:-1], self._said[-1].text
            self.returned.emit(question)

    def _has_key(self) -> bool:
        try:
            return self._api_key() is not None
        except SettingsError:
            return True


def _turn_of(answer: TrialAnswer) -> ChatTurn:
    return ChatTurn("assistant", answer.text, answer.reasoning)


def _activity(answer: TrialAnswer) -> str:
    if answer.text:
        return "Answering…"
    return "Thinking…" if answer.reasoning else "Reading the prompt…"


def _ending(answer: TrialAnswer) -> str:
    if answer.finish == "length":
        full = (answer.figures.generated_tokens or 0) < MOST_ANSWER_TOKENS
        return "Cut off: the context is full." if full else f"Cut off after {MOST_ANSWER_TOKENS:,} tokens."
    return "" if answer.text else "The model had nothing to say."


def _tokens(count: int | None) -> str:
    return ABSENT if count is None else f"{count_text(count)} {'token' if count == 1 else 'tokens'}"


def _speed(tok_per_s: float | None) -> str:
    return ABSENT if tok_per_s is None else f"{rate_text(tok_per_s)} tok/s"
