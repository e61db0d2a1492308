"""The text of the engine's /metrics -> EngineCounters. Nothing it may print can raise or reach a chart unchecked.

The gauges `prompt_tokens_seconds` and `predicted_tokens_seconds` are left out on purpose: every scrape by anyone
resets them, so they say nothing about an interval of ours.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from kvarn.domain.live.engine_counters import EngineCounters

ABSURD = 1e15
"""More tokens, seconds or graphs than any engine can have counted: a broken value, dropped and counted."""

_FIELD_OF = {
    "llamacpp:prompt_tokens_total": "prompt_tokens",
    "llamacpp:prompt_tokens_cached_total": "cached_tokens",
    "llamacpp:prompt_seconds_total": "prompt_seconds",
    "llamacpp:tokens_predicted_total": "predicted_tokens",
    "llamacpp:tokens_predicted_seconds_total": "predicted_seconds",
    "llamacpp:spec_decode_num_draft_tokens_total": "drafted_tokens",
    "llamacpp:spec_decode_num_accepted_tokens_total": "accepted_tokens",
    "llamacpp:requests_processing": "requests_processing",
    "llamacpp:requests_deferred": "requests_deferred",
    "kvarn:graph_built_total": "graph_built",
    "kvarn:graph_reused_total": "graph_reused",
    "kvarn:cuda_captured_total": "cuda_captured",
}
_REBUILDS = "kvarn:graph_rebuild_total"


def parse_exposition(text: str) -> EngineCounters:
    """Read Prometheus text of any quality."""
    values: dict[str, float] = {}
    rebuilds: dict[str, float] = {}
    dropped = 0
    for sample in _samples(text):
        if sample is None:
            dropped += 1
        elif sample.name != _REBUILDS and sample.name not in _FIELD_OF:
            continue
        elif not 0 <= sample.value <= ABSURD:
            dropped += 1
        elif sample.name == _REBUILDS:
            rebuilds[sample.labels.get("reason", "")] = sample.value
        else:
            values[_FIELD_OF[sample.name]] = sample.value
    return EngineCounters(**values, graph_rebuilds=rebuilds, dropped=dropped)


def _samples(text: str) -> Iterator[Sample | None]:
    """Every readable sample; None for a line that is not legal. One bad line does not cost the others."""
    try:
        yield from [sample for family in text_string_to_metric_families(text) for sample in family.samples]
        return
    except Exception:  # the parser raises what its slicing happens to hit, not one documented type
        pass
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        try:
            yield from [sample for family in text_string_to_metric_families(line + "\n") for sample in family.samples]
        except Exception:
            yield None
