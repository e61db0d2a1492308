"""The figures above the charts, in words: a snapshot goes in, texts come out."""

from __future__ import annotations

from dataclasses import dataclass

from kvarn.domain.live.snapshot import LiveSnapshot
from kvarn.domain.quantity_text import bytes_text
from kvarn.domain.time_text import rate_text

NOT_MEASURED = "not measured yet"
AMBER_SHARE, RED_SHARE = 0.80, 0.90
"""Of the card or the RAM; the word changes with the colour."""


@dataclass(frozen=True)
class Headline:
    """`value` None is an absence, and `sub` then says why. `role` colours the sub-line."""

    label: str
    value: str | None
    unit: str
    sub: str = ""
    role: str = "caption"
    is_dim: bool = False


def decode_headline(now: LiveSnapshot, why_absent: str) -> Headline:
    """Speed now; while idle that of the last answer, or the last one seen of it, dimmed and said to be so."""
    if now.decode_tok_per_s is not None:
        return Headline("Decode", rate_text(now.decode_tok_per_s), "tok/s", _load_text(now))
    answer = now.last_answer_tok_per_s
    last = now.last_decode_tok_per_s if answer is None else answer
    if why_absent or last is None:
        return Headline("Decode", None, "tok/s", why_absent or "no answer yet")
    idle = "idle, last seen" if answer is None else "idle, last answer"
    return Headline("Decode", rate_text(last), "tok/s", idle if now.is_idle else _prefill_text(now), is_dim=True)


def memory_headline(now: LiveSnapshot, why_absent: str) -> Headline:
    """The card's memory where there is a card, else what the engine holds of the RAM."""
    if now.vram_used_bytes is not None:
        return _memory("GPU memory", now.vram_used_bytes, now.vram_used_bytes, now.vram_total_bytes, "", "card")
    if now.engine_rss_bytes is None:
        return Headline("Memory", None, "", why_absent or NOT_MEASURED)
    split = f"{bytes_text(now.engine_private_bytes)} private"
    return _memory(
        "Engine memory", now.engine_rss_bytes, now.system_ram_used_bytes, now.system_ram_total_bytes, split, "RAM"
    )


def graph_headline(now: LiveSnapshot, why_absent: str, last_reason: str, *, on_gpu: bool) -> Headline:
    """Graph events of the last minute, counted by the engine."""
    label = "Graph re-captures" if on_gpu else "Graph rebuilds"
    if now.graph_builds_per_min is None:
        return Headline(label, None, "per min", why_absent or NOT_MEASURED)
    last = f"last: {last_reason}" if last_reason else ""
    return Headline(label, f"{now.graph_builds_per_min:,.0f}", "per min", last)


def _memory(label: str, shown: int, used: int | None, total: int | None, sub: str, what: str) -> Headline:
    value, unit = bytes_text(shown).rsplit(" ", 1)
    if used is None or not total:
        return Headline(label, value, unit, sub)
    share = used / total
    full = f"{what} {share:.0%} full".replace("%", " %")
    if share >= AMBER_SHARE:
        word, role = ("nearly full", "bad") if share >= RED_SHARE else ("filling up", "warn")
        return Headline(label, value, unit, f"of {bytes_text(total)} · {word}: {full}", role)
    return Headline(label, value, unit, " · ".join(part for part in (f"of {bytes_text(total)} {what}", sub) if part))


def _load_text(now: LiveSnapshot) -> str:
    running, waiting = now.requests_processing, now.requests_deferred
    parts = [] if running is None else [f"{running} request{'' if running == 1 else 's'}"]
    if waiting:
        parts.append(f"{waiting} waiting")
    return " · ".join(parts)


def _prefill_text(now: LiveSnapshot) -> str:
    if now.prefill_tok_per_s is None:
        return _load_text(now) or "last seen"
    return f"reading the prompt at {rate_text(now.prefill_tok_per_s)} tok/s"
