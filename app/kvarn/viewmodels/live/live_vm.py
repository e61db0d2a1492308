"""Everything the Serve page shows of the running engine: charts, headlines, requests, and why something is missing."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject

from kvarn.domain.launch.engine_status import EnginePhase
from kvarn.domain.live import quantities as q
from kvarn.domain.live.live_state import LiveState
from kvarn.viewmodels.launch.engine_vm import EngineVm
from kvarn.viewmodels.live.chart_export import ChartExport
from kvarn.viewmodels.live.graph_vm import GraphVm
from kvarn.viewmodels.live.headlines import Headline, decode_headline, graph_headline, memory_headline
from kvarn.viewmodels.live.requests_vm import RequestsVm

NO_ENGINE = "No engine is running"
_MEANWHILE = {
    EnginePhase.STARTING: "The model is loading",
    EnginePhase.LOADING: "The model is loading",
    EnginePhase.STOPPING: "The engine is stopping",
}
_PROMISES = {
    q.DECODE_TOK_PER_S: "Generated tokens per second appear here once a model is served",
    q.PREFILL_TOK_PER_S: "Prompt tokens read per second",
    q.ENGINE_RSS_BYTES: "Weights, KV cache and compute buffers, second by second",
    q.GRAPH_BUILT: "Every rebuild of the compute graph, with its reason",
    q.CONTEXT_TOKENS_USED: "Tokens that conversations hold",
}
"""What will be drawn, while there is no engine."""
_IDLE = {
    q.DECODE_TOK_PER_S: "Idle: speed appears while an answer is written",
    q.PREFILL_TOK_PER_S: "Idle: appears while a prompt is read",
    q.CONTEXT_TOKENS_USED: "Nothing held yet",
}


class LiveVm(QObject):
    """`why_missing(name)` is the telemetry's own reason for a quantity it cannot give, or an empty string.

    `live()` is the newest state the engine told of itself, None for an engine that does not.
    """

    def __init__(
        self,
        graph: GraphVm,
        requests: RequestsVm,
        engine: EngineVm,
        *,
        why_missing: Callable[[str], str] = lambda _name: "",
        live: Callable[[], LiveState | None] = lambda: None,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self.graph, self.requests, self._engine = graph, requests, engine
        self.export = ChartExport(self)
        self._why_missing, self.live = why_missing, live
        graph.explain = self.why_empty
        graph.snapshot_ready.connect(requests.refresh)
        engine.changed.connect(graph.redraw)

    @property
    def on_gpu(self) -> bool:
        """True when the engine computes on a card."""
        return self.graph.snapshot.vram_engine_bytes is not None

    def why_empty(self, name: str) -> str:
        """The sentence in the middle of an empty chart."""
        phase = self._engine.status.phase
        if phase in _MEANWHILE:
            return _MEANWHILE[phase]
        if phase is not EnginePhase.READY:
            return _PROMISES.get(name, NO_ENGINE)
        return self._why_missing(name) or _IDLE.get(name, "")

    def headlines(self) -> tuple[Headline, ...]:
        """Decode, memory and graph events as of the last frame."""
        now = self.graph.snapshot
        reasons = [mark.text for mark in self.graph.frame.marks if mark.kind == "rebuild"]
        return (
            decode_headline(now, self._why(q.DECODE_TOK_PER_S)),
            memory_headline(now, self._why(q.ENGINE_RSS_BYTES)),
            graph_headline(now, self._why(q.GRAPH_BUILT), reasons[-1] if reasons else "", on_gpu=self.on_gpu),
        )

    def why_no_requests(self) -> str:
        """What stands in place of the empty table."""
        if self._engine.status.phase is not EnginePhase.READY:
            return "Requests appear here once they have been answered."
        return self._why_missing("requests") or "No request yet: point a client at the address above."

    def why_no_inside(self) -> str:
        """What stands in place of the engine's live state."""
        if self._engine.status.phase is not EnginePhase.READY:
            return "Slots, steps, caches and graphs appear here while a model is served."
        own = "This engine does not tell what goes on inside it; Kvarn's own engine does."
        return self._why_missing(q.KV_CELLS_USED) or own

    def _why(self, name: str) -> str:
        phase = self._engine.status.phase
        if phase is EnginePhase.READY:
            return self._why_missing(name)
        return _MEANWHILE.get(phase, NO_ENGINE).lower()
