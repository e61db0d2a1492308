"""Looks at the engine -> points for the charts. One meter per attached engine; pure, time is given."""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

from kvarn.domain.live import quantities as q
from kvarn.domain.live.derived_requests import DerivedRequests
from kvarn.domain.live.engine_counters import EngineCounters
from kvarn.domain.live.live_meter import LIVE_QUANTITIES, LiveMeter
from kvarn.domain.live.live_state import LiveState
from kvarn.domain.live.points import Point
from kvarn.domain.live.rates import CounterGrowth, Growth
from kvarn.domain.live.rebuild_reasons import rebuild_phrase
from kvarn.domain.live.request import FinishedRequest
from kvarn.domain.live.slots import SlotSample, SlotSpeed, has_ended

LEAST_PROMPT_TOKENS = 16
"""A shorter prompt measures the start of a batch, not the speed of reading: it sets no point on the chart."""


class EngineFrame(msgspec.Struct, frozen=True, kw_only=True):
    """One look at the engine; None is a page it does not offer."""

    t_s: float
    slots: tuple[SlotSample, ...] | None = None
    counters: EngineCounters | None = None
    finished: tuple[FinishedRequest, ...] | None = None
    """Requests the engine itself lists as ended since the last frame; None when it keeps no such list."""
    live: LiveState | None = None
    """The engine's own live state, from one that tells it."""


class Metering(msgspec.Struct, frozen=True):
    """What one frame brings: points in the order of time per name, ended requests, reasons of graph rebuilds."""

    points: tuple[Point, ...]
    finished: tuple[FinishedRequest, ...]
    rebuilds: tuple[str, ...]


ENGINE_QUANTITIES = (
    q.DECODE_TOK_PER_S,
    q.DECODE_RAW_TOK_PER_S,
    q.PREFILL_TOK_PER_S,
    q.REQUESTS_PROCESSING,
    q.REQUESTS_DEFERRED,
    q.CONTEXT_TOKENS_USED,
    q.DRAFT_ACCEPTANCE,
    q.GRAPH_BUILT,
    q.GRAPH_REUSED,
    q.GRAPH_BUILT_TOTAL,
    q.CUDA_CAPTURED,
    *LIVE_QUANTITIES,
)
"""What a meter can speak of; all of it becomes a gap when the engine cannot be reached."""


class EngineMeter:
    """Turns frames into points. Speeds come live from /slots; work too short to be seen there is drawn from the
    totals once it has ended."""

    def __init__(self) -> None:
        self._speeds: dict[int, SlotSpeed] = {}
        self._slots: dict[int, SlotSample] = {}
        self._derived = DerivedRequests()
        self._live = LiveMeter()
        self._growth: dict[str, CounterGrowth] = {}
        self._live_at: dict[str, float] = {}
        """When each speed was last seen live."""

    @property
    def unlisted_requests(self) -> int:
        """Requests that ended but could not be told apart on an engine without a list of its own."""
        return self._derived.unlisted

    def read(self, frame: EngineFrame) -> Metering:
        """The points of one frame; frames come in the order of time."""
        points: list[Point] = []
        finished = frame.finished or ()
        if frame.counters is not None:
            points += self._unseen(frame.t_s, frame.counters, self._ended_slots(frame.slots or ()))
            points += self._from_counters(frame.t_s, frame.counters)
            if frame.finished is None and frame.slots is not None:
                derived = self._derived.look(frame.t_s, frame.slots, frame.counters)
                finished = (derived,) if derived else ()
        if frame.slots is not None:
            points += self._from_slots(frame.t_s, frame.slots)
        points.append(Point(q.REQUESTS_PROCESSING, frame.t_s, _processing(frame)))
        if frame.live is not None:
            points += self._live.read(frame.t_s, frame.live)
        return Metering(tuple(points), finished, self._rebuilds(frame))

    def _from_slots(self, t: float, slots: tuple[SlotSample, ...]) -> list[Point]:
        is_fresh = False
        for slot in slots:
            is_fresh |= self._speeds.setdefault(slot.slot, SlotSpeed()).look(t, slot)
        self._slots = {slot.slot: slot for slot in slots}
        speeds = [(self._speeds[slot.slot], slot) for slot in slots]
        points = [
            self._speed(q.DECODE_TOK_PER_S, t, _total(speed.decode(t) for speed, _ in speeds)),
            self._speed(q.PREFILL_TOK_PER_S, t, _total(speed.prefill(t, slot) for speed, slot in speeds)),
            Point(q.CONTEXT_TOKENS_USED, t, sum(slot.held_tokens for slot in slots)),
        ]
        raw = _total(speed.decode_raw() for speed, _ in speeds)
        if is_fresh or raw is None:
            points.append(Point(q.DECODE_RAW_TOK_PER_S, t, raw))
        return points

    def _speed(self, name: str, t: float, value: float | None) -> Point:
        if value is not None:
            self._live_at[name] = t
        return Point(name, t, value)

    def _from_counters(self, t: float, now: EngineCounters) -> list[Point]:
        built, captured = self._grown("built", t, now.graph_built), self._grown("captured", t, now.cuda_captured)
        reused = self._grown("reused", t, now.graph_reused)
        drafted, accepted = self._grown("drafted", t, now.drafted_tokens), self._grown("acc", t, now.accepted_tokens)
        points = [
            Point(q.REQUESTS_DEFERRED, t, now.requests_deferred),
            Point(q.GRAPH_BUILT_TOTAL, t, now.graph_built),
            Point(q.GRAPH_BUILT, t, built and built.amount),
            Point(q.GRAPH_REUSED, t, reused and reused.amount),
            Point(q.CUDA_CAPTURED, t, captured and captured.amount),
        ]
        if drafted and accepted and drafted.amount > 0:
            points.append(Point(q.DRAFT_ACCEPTANCE, t, accepted.amount / drafted.amount))
        return points

    def _unseen(self, t: float, now: EngineCounters, ended: int) -> list[Point]:
        """Speeds of work that ended without having been seen live, as a short line up to now."""
        answer, answer_s = self._grown("n", t, now.predicted_tokens), self._grown("s", t, now.predicted_seconds)
        prompt, prompt_s = self._grown("pn", t, now.prompt_tokens), self._grown("ps", t, now.prompt_seconds)
        points: list[Point] = []
        if answer and answer_s:
            # Each answer's first token belongs to its prompt; seconds of slots that worked side by side are summed.
            steps, seconds = answer.amount - ended, answer_s.amount / ended
            points += self._line(q.DECODE_TOK_PER_S, t, steps, seconds)
        if prompt and prompt_s and prompt.amount >= LEAST_PROMPT_TOKENS:
            points += self._line(q.PREFILL_TOK_PER_S, t, prompt.amount, prompt_s.amount)
        return points

    def _line(self, name: str, t: float, steps: float, seconds: float) -> list[Point]:
        if steps < 4 or seconds <= 0 or self._live_at.get(name, -math.inf) >= t - seconds:
            return []
        return [Point(name, t - seconds, steps / seconds), Point(name, t, steps / seconds)]

    def _ended_slots(self, slots: tuple[SlotSample, ...]) -> int:
        """On how many slots a request ended since the last frame; at least one, for totals only grow at an end."""
        seen = [(self._slots[slot.slot], slot) for slot in slots if slot.slot in self._slots]
        return max(1, sum(has_ended(before, now) for before, now in seen))

    def _rebuilds(self, frame: EngineFrame) -> tuple[str, ...]:
        if frame.counters is None:
            return ()
        grown = {r: self._grown(f"why {r}", frame.t_s, n) for r, n in frame.counters.graph_rebuilds.items()}
        return tuple(f"{g.amount:.0f} × {rebuild_phrase(reason)}" for reason, g in grown.items() if g and g.amount)

    def _grown(self, key: str, t: float, total: float | None) -> Growth | None:
        return self._growth.setdefault(key, CounterGrowth()).look(t, total)


def _processing(frame: EngineFrame) -> float | None:
    if frame.slots is not None:
        return sum(slot.is_processing for slot in frame.slots)
    return frame.counters.requests_processing if frame.counters else None


def _total(speeds: Iterable[float | None]) -> float | None:
    known = [speed for speed in speeds if speed is not None]
    return sum(known) if known else None
