"""What goes on inside the engine, as rows of text and shares: slots by phase, steps, caches, graphs, speculation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kvarn.domain import colours
from kvarn.domain.live.live_state import LiveCache, LiveSlot, LiveState
from kvarn.domain.live.rebuild_reasons import rebuild_phrase
from kvarn.domain.quantity_text import bytes_text, count_text
from kvarn.domain.time_text import ABSENT, rate_text

SLOT_COLUMNS = ("<slot", "<phase", "prompt", "cached", "generated", "held", "prefill", "decode")
_PHASES = {
    "idle": "idle",
    "wait": "waiting for a shared prompt",
    "prefill": "reading the prompt",
    "decode": "answering",
    "checkpoint_save": "saving a checkpoint",
    "checkpoint_restore": "going back to a checkpoint",
    "cache_save": "putting the conversation aside",
    "cache_load": "fetching a conversation",
    "slot_save": "saving to a file",
    "slot_restore": "loading from a file",
}
_CACHES = {"full": "KV cache", "window": "Sliding-window cache", "recurrent": "Recurrent state"}
_MOST_REASONS = 3


@dataclass(frozen=True)
class Share:
    """One part of a bar: `share` of its length, 0 to 1."""

    text: str
    share: float
    colour: str


@dataclass(frozen=True)
class InsideRow:
    """`shares` make one bar from the left; `columns` stand side by side, each 0 to 1, None where nothing is known."""

    label: str
    value: str
    detail: str = ""
    shares: tuple[Share, ...] = ()
    columns: tuple[float | None, ...] = ()


def slot_rows(live: LiveState) -> list[tuple[str, ...]]:
    """One row of texts for each slot, under `SLOT_COLUMNS`."""
    return [_slot_row(slot) for slot in live.slots]


def inside_rows(live: LiveState) -> tuple[InsideRow, ...]:
    """Whatever this engine tells, most asked for first; what it does not tell has no row."""
    return tuple(_rows(live))


def _rows(live: LiveState) -> Iterator[InsideRow]:
    yield from _step(live)
    yield from _speculation(live)
    yield from map(_cache, live.kv.caches)
    yield from _checkpoints(live)
    yield from _prompt_cache(live)
    yield from _graphs(live)
    yield from _cuda(live)


def _slot_row(slot: LiveSlot) -> tuple[str, ...]:
    busy = slot.is_processing
    return (
        str(slot.id),
        phase_text(slot),
        count_text(slot.prompt.total) if busy else ABSENT,
        count_text(slot.prompt.cached) if busy else ABSENT,
        count_text(slot.decoded) if busy else ABSENT,
        f"{slot.held:,} of {slot.n_ctx:,}",
        ABSENT if slot.prefill_tok_per_s is None else f"{rate_text(slot.prefill_tok_per_s)} tok/s",
        ABSENT if slot.decode_tok_per_s is None else f"{rate_text(slot.decode_tok_per_s)} tok/s",
    )


def phase_text(slot: LiveSlot) -> str:
    """The phase in words, with how far a prompt is read; an unknown phase in the engine's own word."""
    words = _PHASES.get(slot.phase) or slot.phase.replace("_", " ")
    if slot.phase != "prefill" or not slot.prompt.total:
        return words
    return f"{words}, {percent((slot.prompt.cached + slot.prompt.processed) / slot.prompt.total)}"


def percent(share: float) -> str:
    """`43 %`."""
    return f"{share:.0%}".replace("%", " %")


def _step(live: LiveState) -> Iterator[InsideRow]:
    last = live.steps.last if live.steps else None
    if last is None:
        return
    parts = (
        ("decode call", last.decode_ms, colours.DECODE),
        ("sampling", last.sampling_ms, colours.SKY),
        ("other", last.other_ms, colours.NEUTRAL),
    )
    total = sum(ms for _, ms, _ in parts)
    if total <= 0:
        return
    detail = " · ".join(f"{name} {ms:,.1f} ms" for name, ms, _ in parts)
    shares = tuple(Share(name, ms / total, colour) for name, ms, colour in parts)
    tokens = f"{last.tokens:,} token{'' if last.tokens == 1 else 's'}"
    yield InsideRow("Last step", f"{total:,.1f} ms", f"{detail} · {tokens}", shares)


def _speculation(live: LiveState) -> Iterator[InsideRow]:
    told = live.speculation
    if told is None:
        return
    share = f"{percent(told.accepted / told.drafted)} accepted" if told.drafted else "nothing drafted yet"
    depth = f"depth {told.depth}" + (f" of {told.depth_max}" if told.depth_max else "")
    positions = ", ".join(ABSENT if a is None else percent(a) for a in told.acceptance)
    detail = f"{told.kind}{', adapts' if told.adaptive else ''}" + (f" · by position {positions}" if positions else "")
    yield InsideRow("Speculation", f"{depth} · {share}", detail, columns=told.acceptance)


def _cache(cache: LiveCache) -> InsideRow:
    name = _CACHES.get(cache.kind) or cache.kind
    label = name if cache.context == "target" else f"{name} ({cache.context})"
    types = [kv for kv in dict.fromkeys((cache.type_k, cache.type_v)) if kv]
    detail = " · ".join(("/".join(types), bytes_text(cache.k_bytes + cache.v_bytes)) if types else ("fixed size",))
    if cache.kind == "recurrent" or not cache.cells:
        return InsideRow(label, bytes_text(cache.k_bytes + cache.v_bytes), detail)
    colour = colours.cache_type_colour(cache.type_k or "")
    shares = (Share("used", min(1.0, cache.cells_used / cache.cells), colour),)
    return InsideRow(label, f"{cache.cells_used:,} of {cache.cells:,} cells", detail, shares)


def _checkpoints(live: LiveState) -> Iterator[InsideRow]:
    kept = live.checkpoints
    if kept is None or not (kept.count or kept.budget_bytes or kept.saved):
        return
    counts = (("restored", kept.restored), ("evicted", kept.evicted), ("declined", kept.declined))
    detail = " · ".join(f"{name} {number:,}" for name, number in counts if number)
    yield _stored("Checkpoints", kept.count, kept.bytes, kept.budget_bytes, detail)


def _prompt_cache(live: LiveState) -> Iterator[InsideRow]:
    kept = live.prompt_cache
    if kept is not None:
        yield _stored("Prompt cache", kept.entries, kept.bytes, kept.limit_bytes, "conversations put aside")


def _stored(label: str, count: int, held: int, limit: int | None, detail: str) -> InsideRow:
    if not limit:
        return InsideRow(label, f"{count:,} · {bytes_text(held)}", detail)
    shares = (Share("held", min(1.0, held / limit), colours.PINK),)
    return InsideRow(label, f"{count:,} · {bytes_text(held)} of {bytes_text(limit)}", detail, shares)


def _graphs(live: LiveState) -> Iterator[InsideRow]:
    told = live.graphs
    if told is None or not told.ubatches:
        return
    reasons = sorted(told.reasons.items(), key=lambda pair: -pair[1])
    named = [f"{count:,} × {rebuild_phrase(reason)}" for reason, count in reasons if count][:_MOST_REASONS]
    shares = (Share("reused", min(1.0, told.reused / told.ubatches), colours.GREEN),)
    yield InsideRow("Compute graphs", f"{told.built:,} built · {told.reused:,} reused", " · ".join(named), shares)


def _cuda(live: LiveState) -> Iterator[InsideRow]:
    for card in (live.graphs.cuda if live.graphs else None) or ():
        eager = " · ".join(f"{count:,} × {reason.replace('_', ' ')}" for reason, count in card.eager.items() if count)
        detail = f"without a graph: {eager}" if eager else ""
        runs = card.replays + card.captures + sum(card.eager.values())
        shares = (Share("replayed", card.replays / runs, colours.GREEN),) if runs else ()
        label = f"CUDA graphs, {card.device}" if card.device else "CUDA graphs"
        yield InsideRow(label, f"{card.captures:,} captured · {card.replays:,} replayed", detail, shares)
