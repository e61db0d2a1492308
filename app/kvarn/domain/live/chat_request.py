"""One chat request: the body that is sent, and the same as a command a person can paste."""

from __future__ import annotations

import json

import msgspec

from kvarn.domain.shell_words import shell_text

MOST_ANSWER_TOKENS = 1024
"""A small model that talks in circles must not fill the context."""
PATH = "/v1/chat/completions"


class ChatTurn(msgspec.Struct, frozen=True):
    """One side's words."""

    role: str
    """`user` or `assistant`."""
    text: str
    reasoning: str = ""
    """Shown, never sent back to the model."""


class ChatRequest(msgspec.Struct, frozen=True):
    """Where to ask, and what was said so far, the question last."""

    base_url: str
    """Without `/v1`."""
    turns: tuple[ChatTurn, ...]
    answer_tokens: int = MOST_ANSWER_TOKENS

    @property
    def body(self) -> str:
        """The JSON to send."""
        messages = [{"role": turn.role, "content": turn.text} for turn in self.turns]
        options = {"stream": True, "stream_options": {"include_usage": True}, "max_tokens": self.answer_tokens}
        return json.dumps({"messages": messages, **options}, ensure_ascii=False)


def curl_text(request: ChatRequest, *, with_key: bool) -> str:
    """The request for a POSIX shell; the key stays in the environment, as `$KVARN_API_KEY`."""
    lines = [
        "curl -N " + shell_text([request.base_url + PATH]),
        "-H 'Content-Type: application/json'",
        *(['-H "Authorization: Bearer $KVARN_API_KEY"'] if with_key else []),
        "-d " + shell_text([request.body]),
    ]
    return " \\\n  ".join(lines)
