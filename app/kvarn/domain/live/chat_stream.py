"""Collects one streamed answer of `/v1/chat/completions` from the data of its server-sent events.

Framing (line ends, comments, glued or split packets) is the SSE reader's business; this is about what events say.
"""

from __future__ import annotations

import json

import msgspec

from kvarn.domain.live.chat_problem import ChatProblem, problem_of_error, unreadable
from kvarn.domain.live.rates import per_second


class AnswerFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What an answer cost, by the engine's own `usage` and `timings`; None is 'not told'.

    Speeds follow the same definitions as `FinishedRequest`: prompt and answer apart, waiting in neither.
    """

    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    """The part of the prompt found in the cache and not computed."""
    generated_tokens: int | None = None
    prefill_tok_per_s: float | None = None
    decode_tok_per_s: float | None = None
    """None for an answer of one token, which takes no step of its own."""


class _Delta(msgspec.Struct):
    content: str | None = None
    reasoning_content: str | None = None


class _Choice(msgspec.Struct):
    delta: _Delta | None = None
    finish_reason: str | None = None


class _Details(msgspec.Struct):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None


class _Timings(msgspec.Struct):
    cache_n: int | None = None
    prompt_n: int | None = None
    prompt_ms: float | None = None
    predicted_n: int | None = None
    predicted_ms: float | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    timings: _Timings | None = None
    error: object = None


class ChatStream:
    """Feed it every event's data in order; read what has arrived so far at any time."""

    def __init__(self) -> None:
        self._text, self._reasoning = _Words(), _Words()
        self.finish = ""
        """The engine's word: `stop`, `length`, `tool_calls`, …"""
        self.problem: ChatProblem | None = None
        self.is_done = False
        """True after the stream's own end mark."""
        self._usage, self._timings = _Usage(), _Timings()

    @property
    def text(self) -> str:
        """The answer so far, whole characters only."""
        return self._text.so_far

    @property
    def reasoning(self) -> str:
        """What the model thought aloud before answering; no part of the answer."""
        return self._reasoning.so_far

    @property
    def has_ended(self) -> bool:
        """True when nothing of the answer can be missing, or nothing more is worth waiting for."""
        return self.is_done or bool(self.finish) or self.problem is not None

    @property
    def figures(self) -> AnswerFigures:
        """What has been told of counts and speeds."""
        u, t = self._usage, self._timings
        details = u.prompt_tokens_details or _Details()
        computed = None if t.prompt_n is None else t.prompt_n + (t.cache_n or 0)
        generated = u.completion_tokens if u.completion_tokens is not None else t.predicted_n
        return AnswerFigures(
            prompt_tokens=u.prompt_tokens if u.prompt_tokens is not None else computed,
            cached_tokens=t.cache_n if t.cache_n is not None else details.cached_tokens,
            generated_tokens=generated,
            prefill_tok_per_s=per_second(t.prompt_n, t.prompt_ms),
            # The first token comes out of the prompt's last batch.
            decode_tok_per_s=per_second(t.predicted_n and t.predicted_n - 1, t.predicted_ms),
        )

    def read(self, data: str) -> None:
        """Take one event's data; never raises."""
        if not data.strip() or self.is_done:
            return
        if data.strip() == "[DONE]":
            self.is_done = True
            return
        try:
            chunk = msgspec.convert(json.loads(data), _Chunk)
        except (ValueError, RecursionError):
            # msgspec's ValidationError is a ValueError too.
            self.problem = self.problem or unreadable("it is no chat completion stream")
            return
        self._take(chunk)

    def _take(self, chunk: _Chunk) -> None:
        if chunk.error is not None:
            self.problem = problem_of_error(chunk.error)
        self._usage, self._timings = chunk.usage or self._usage, chunk.timings or self._timings
        for choice in (chunk.choices or ())[:1]:
            self.finish = choice.finish_reason or self.finish
            if choice.delta is not None:
                self._reasoning.add(choice.delta.reasoning_content or "")
                self._text.add(choice.delta.content or "")


def whole(text: str) -> str:
    """Surrogate pairs joined, lone halves replaced: text that every encoder takes."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


class _Words:
    """Joins pieces; one half of a character written as two escapes waits for the other."""

    def __init__(self) -> None:
        self.so_far = ""
        self._half = ""

    def add(self, piece: str) -> None:
        piece, self._half = self._half + piece, ""
        if "\ud800" <= piece[-1:] <= "\udbff":
            piece, self._half = piece[:-1], piece[-1]
        self.so_far += whole(piece)
