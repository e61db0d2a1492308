"""A conversation with the tiny hybrid model (two delta-net layers, an MTP block), whose memory cannot be cut."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

TINY_HYBRID = Path(__file__).parent / "data" / "tiny-hybrid-mtp" / "tiny-hybrid-mtp.gguf"
OPTIONS = ("-c", "4096", "-np", "1", "-ub", "64", "-cms", "16")
"""A checkpoint at every user message, however short: the model's vocabulary is bytes."""
STATE_BYTES = 2 * (4 * 64 * 64 + 3 * 512) * 4
"""Two layers of S (4 heads of 64 x 64) and of the last three inputs of a convolution over 512 channels, float32."""

Messages = list[dict[str, str]]


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def ask(server: Any, messages: Messages, **options: Any) -> dict[str, Any]:
    """One greedy answer of 24 tokens with the log probabilities of each one."""
    body = {"messages": messages, "temperature": 0.0, "max_tokens": 24, "logprobs": True, "top_logprobs": 3}
    return server.http.post("/v1/chat/completions", json=body | options).raise_for_status().json()


def text_of(answer: dict[str, Any]) -> str:
    return answer["choices"][0]["message"]["content"]


def logprobs_of(answer: dict[str, Any]) -> list[float | None]:
    """By token; None for an accepted draft, to which the server gives no probabilities."""
    tokens = answer["choices"][0]["logprobs"]["content"]
    return [token["logprob"] if token["top_logprobs"] else None for token in tokens]


def with_answer(messages: Messages, answer: dict[str, Any], text: str) -> Messages:
    """The conversation one turn later."""
    return [*messages, {"role": "assistant", "content": text_of(answer)}, user(text)]


def assert_same(warm: dict[str, Any], cold: dict[str, Any]) -> None:
    """Equal text, and log probabilities within what another split of the prompt into batches does."""
    assert text_of(warm) == text_of(cold)
    ours, want = logprobs_of(warm), logprobs_of(cold)
    assert len(ours) == len(want)
    worst = max(abs(a - b) for a, b in zip(ours, want, strict=True) if a is not None and b is not None)
    assert math.isfinite(worst)
    assert worst < 0.02, f"log probabilities differ by {worst}"


def checkpoints(server: Any) -> dict[str, int]:
    """`kvarn:checkpoint_*` of /metrics by the rest of the name."""
    prefix = "kvarn:checkpoint_"
    return {name.removeprefix(prefix): int(n) for name, n in server.metrics().items() if name.startswith(prefix)}
