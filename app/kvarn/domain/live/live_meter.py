"""What only the engine's own live state tells -> points for the charts. Pure; time is given."""

from __future__ import annotations

from kvarn.domain.live import quantities as q
from kvarn.domain.live.live_state import LiveState, LiveSteps
from kvarn.domain.live.points import Point

LIVE_QUANTITIES = (
    q.KV_CELLS_USED,
    q.KV_CELLS,
    q.CHECKPOINT_BYTES,
    q.PROMPT_CACHE_BYTES,
    q.STEP_DECODE_MS,
    q.STEP_SAMPLING_MS,
    q.STEP_OTHER_MS,
    q.SPECULATION_DEPTH,
)


class LiveMeter:
    """One per attached engine; states come in the order of time."""

    def __init__(self) -> None:
        self._steps: LiveSteps | None = None

    def read(self, t_s: float, state: LiveState) -> list[Point]:
        """The points of one state; a part the engine does not tell is a gap."""
        full = [cache for cache in state.kv.caches if cache.kind == "full" and cache.context == "target"]
        checkpoints, cache, speculation = state.checkpoints, state.prompt_cache, state.speculation
        return [
            Point(q.KV_CELLS_USED, t_s, sum(c.cells_used for c in full) if full else None),
            Point(q.KV_CELLS, t_s, sum(c.cells for c in full) if full else None),
            Point(q.CHECKPOINT_BYTES, t_s, checkpoints.bytes if checkpoints else None),
            Point(q.PROMPT_CACHE_BYTES, t_s, cache.bytes if cache else None),
            Point(q.SPECULATION_DEPTH, t_s, speculation.depth if speculation else None),
            *self._step_points(t_s, state.steps),
        ]

    def _step_points(self, t_s: float, now: LiveSteps | None) -> list[Point]:
        """Mean time of each part over the steps since the last state; a gap while there was none."""
        before, self._steps = self._steps, now
        count = now.count - before.count if now and before else 0
        if now is None or before is None or count <= 0:
            return [Point(name, t_s, None) for name in (q.STEP_DECODE_MS, q.STEP_SAMPLING_MS, q.STEP_OTHER_MS)]
        return [
            Point(q.STEP_DECODE_MS, t_s, (now.decode_ms_total - before.decode_ms_total) / count),
            Point(q.STEP_SAMPLING_MS, t_s, (now.sampling_ms_total - before.sampling_ms_total) / count),
            Point(q.STEP_OTHER_MS, t_s, (now.other_ms_total - before.other_ms_total) / count),
        ]
