"""Why there is no answer, as a sentence with a remedy; read from the engine's own error objects."""

from __future__ import annotations

import json
from enum import StrEnum

import msgspec


class ChatTrouble(StrEnum):
    """What kind of trouble it is."""

    TOO_LONG = "too-long"
    WRONG_KEY = "wrong-key"
    LOADING = "loading"
    REFUSED = "refused"
    LOST = "lost"
    UNREADABLE = "unreadable"


class ChatProblem(msgspec.Struct, frozen=True, kw_only=True):
    """Expected trouble with one answer."""

    kind: ChatTrouble
    message: str
    remedy: str = ""
    needed_tokens: int | None = None
    """What the conversation takes, when it is longer than the context."""


class _WireError(msgspec.Struct):
    message: str = ""
    type: str = ""
    n_prompt_tokens: int | None = None
    n_ctx: int | None = None


_MOST_WORDS = 500
WRONG_KEY = ChatProblem(
    kind=ChatTrouble.WRONG_KEY,
    message="The engine refuses our API key: wrong key.",
    remedy="It was changed since the launch. Relaunch, so that engine and console hold the same one.",
)
LOST = ChatProblem(
    kind=ChatTrouble.LOST,
    message="The connection to the engine was lost before the answer ended.",
    remedy="What had arrived by then is kept. Send again, or look into the log.",
)
UNREACHABLE = ChatProblem(
    kind=ChatTrouble.LOST,
    message="The engine cannot be reached.",
    remedy="Look into the log, or stop it and launch again.",
)


def unreadable(what: str) -> ChatProblem:
    """The other side does not speak the protocol; `what` says how it was noticed."""
    return ChatProblem(
        kind=ChatTrouble.UNREADABLE,
        message=f"The engine's answer cannot be read: {what}.",
        remedy="Ask again; if it stays so, this program is no OpenAI-compatible engine.",
    )


def problem_of_reply(status: int, body: str) -> ChatProblem:
    """What an answer other than 200 means."""
    try:
        error = json.loads(body)["error"]
    except (ValueError, LookupError, TypeError, RecursionError):
        error = body
    return problem_of_error(error, status)


def problem_of_error(error: object, status: int = 500) -> ChatProblem:
    """From the `error` member of a reply or of a stream's event: an object, or a mere text."""
    try:
        wire = msgspec.convert(error, _WireError)
    except msgspec.ValidationError:
        wire = _WireError(message=error if isinstance(error, str) else "")
    if status in {401, 403}:
        return WRONG_KEY
    if wire.type == "exceed_context_size_error":
        return _too_long(wire.n_prompt_tokens, wire.n_ctx)
    if status == 503:
        return ChatProblem(kind=ChatTrouble.LOADING, message="The engine is still loading the model.")
    words = " ".join(wire.message.split())[:_MOST_WORDS] or f"it answered {status}"
    return ChatProblem(kind=ChatTrouble.REFUSED, message=f"The engine refused the request: {words.rstrip('.')}.")


def _too_long(needed: int | None, context: int | None) -> ChatProblem:
    counts = f": it needs {needed:,} tokens, a conversation has {context:,}" if needed and context else ""
    return ChatProblem(
        kind=ChatTrouble.TOO_LONG,
        message=f"Longer than the context{counts}.",
        remedy="Shorten the text, clear the conversation, or launch with a larger context.",
        needed_tokens=needed,
    )
