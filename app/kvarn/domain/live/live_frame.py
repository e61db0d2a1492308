"""The engine's live state -> the frame every engine is metered by, so that both ways of looking give the same lines."""

from __future__ import annotations

from kvarn.domain.live.engine_counters import EngineCounters
from kvarn.domain.live.engine_meter import EngineFrame
from kvarn.domain.live.live_state import LiveSlot, LiveState
from kvarn.domain.live.request import FinishedRequest
from kvarn.domain.live.slots import SlotSample


def frame_of(state: LiveState, t_s: float, finished: tuple[FinishedRequest, ...] | None) -> EngineFrame:
    """One look. `finished`: requests the engine listed as ended since the last one; None when it keeps no list."""
    return EngineFrame(
        t_s=t_s,
        slots=tuple(_sample(slot) for slot in state.slots),
        counters=_counters(state),
        finished=finished,
        live=state,
    )


def _sample(slot: LiveSlot) -> SlotSample:
    return SlotSample(
        slot=slot.id,
        task=slot.task,
        is_processing=slot.is_processing,
        context_tokens=slot.n_ctx,
        held_tokens=slot.held,
        prompt_processed=slot.prompt.processed,
        prompt_cached=slot.prompt.cached,
        decoded=slot.decoded,
    )


def _counters(state: LiveState) -> EngineCounters:
    """The totals as a meter knows them: an answer counts when it has ended, so what still runs is taken out."""
    tokens, graphs = state.tokens, state.graphs
    running = [slot for slot in state.slots if slot.decoded]
    running_ms = sum(slot.decode_ms for slot in running)
    return EngineCounters(
        prompt_tokens=tokens.prompt_total,
        cached_tokens=tokens.prompt_cached_total,
        prompt_seconds=tokens.prompt_ms_total / 1000,
        predicted_tokens=max(0, tokens.generated_total - sum(slot.decoded for slot in running)),
        # Rounded to the engine's microseconds: the rest of a difference of sums is not time.
        predicted_seconds=max(0.0, round((tokens.generated_ms_total - running_ms) / 1000, 6)),
        drafted_tokens=max(0, tokens.drafted_total - sum(slot.drafted for slot in running)),
        accepted_tokens=max(0, tokens.draft_accepted_total - sum(slot.draft_accepted for slot in running)),
        requests_processing=state.requests.processing,
        requests_deferred=state.requests.waiting,
        graph_built=graphs.built if graphs else None,
        graph_reused=graphs.reused if graphs else None,
        graph_rebuilds=dict(graphs.reasons) if graphs else {},
        cuda_captured=sum(device.captures for device in graphs.cuda) if graphs and graphs.cuda else None,
    )
