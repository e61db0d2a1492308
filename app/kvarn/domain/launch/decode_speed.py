"""How fast a launch should decode: bytes one step must read, over the bandwidth this machine has shown.

    W = tensor bytes read per token: everything but the embedding table (one row of it, unless it is also
        the output head); routed experts by the share that sees a token
    K = K/V bytes at the depth, R = recurrent state read and written
    tokens/s = bandwidth / (W + K + R)

Bandwidth is never assumed: it comes from decode speeds measured here, so there is no prediction before
the first run. The range is the spread of those runs, widened while they are few and when none was with the
same model.
"""

from __future__ import annotations

import msgspec

from kvarn.domain.kv_type import KvType
from kvarn.domain.launch.attention_layout import AttentionLayout, UnknownLayout, attention_layout
from kvarn.domain.launch.kv_bytes import kv_bytes_at
from kvarn.domain.launch.launch_plan import LaunchSettings
from kvarn.domain.library.model_entry import ModelEntry
from kvarn.domain.library.model_facts import ModelFacts

_OTHER_MODEL_FACTOR = 1.5
"""Weight types decode at different speeds per byte on a CPU; measured spread between two small models."""
_LONE_RUN_FACTOR = 2.0
"""A run that shared the memory with one other program of its kind had half the bandwidth."""


class DecodeMeasurement(msgspec.Struct, frozen=True, kw_only=True):
    """One decode speed measured on this machine, one sequence, without speculation."""

    model_id: str
    model_title: str
    step_bytes: int
    """W + K + R at the depth of the measurement."""
    decode_tok_per_s: float
    depth_tokens: int
    on_gpu: bool
    engine_version: str

    @property
    def bytes_per_s(self) -> float:
        """Effective bandwidth."""
        return self.step_bytes * self.decode_tok_per_s


class Calibration(msgspec.Struct, frozen=True):
    """This machine's measured runs, oldest first."""

    runs: tuple[DecodeMeasurement, ...]


class SpeedRange(msgspec.Struct, frozen=True):
    """Tokens per second for one sequence; `basis` names the answers it rests on, as a sentence."""

    low: float
    high: float
    basis: str


def step_bytes(model: ModelEntry, kv_k: KvType, kv_v: KvType, depth_tokens: int) -> int | None:
    """Bytes one decode step of one sequence moves at a depth; None when the header does not tell."""
    if model.facts is None or model.facts.tensors is None:
        return None
    layout = attention_layout(model.facts)
    if isinstance(layout, UnknownLayout):
        return None
    kv_k, kv_v = kv_k.for_heads(layout.k_head_sizes), kv_v.for_heads(layout.v_head_sizes)
    if any(_misfits(layout, kv_k, kv_v)):
        return None
    state = 2 * layout.recurrent_layers * layout.recurrent_row * 4
    return _weights_read(model.facts) + kv_bytes_at(layout, kv_k, kv_v, depth_tokens) + state


def _misfits(layout: AttentionLayout, kv_k: KvType, kv_v: KvType) -> list[int]:
    return [g.k_row % kv_k.block_values + g.v_row % kv_v.block_values for g in layout.kv]


def _weights_read(facts: ModelFacts) -> int:
    tensors = facts.tensors
    if tensors is None:
        return 0
    unread = tensors.nextn_bytes + (tensors.token_embd_bytes if tensors.output_bytes else 0)
    return tensors.total_bytes - unread - round(tensors.routed_expert_bytes * (1 - _routed_share(facts)))


def _routed_share(facts: ModelFacts) -> float:
    """Share of the routed experts that one token passes through."""
    total, used = facts.hparams.get("expert_count"), facts.hparams.get("expert_used_count")
    if isinstance(used, tuple):
        used = max((n for n in used if isinstance(n, int)), default=0)
    if not isinstance(total, int) or not isinstance(used, int) or not 0 < used <= total:
        return 1.0
    return used / total


def predict_decode(
    model: ModelEntry,
    settings: LaunchSettings,
    kv_k: KvType,
    kv_v: KvType,
    depth_tokens: int,
    calibration: Calibration | None,
) -> SpeedRange | None:
    """Expected decode speed at a filled depth, None until this machine has run something comparable."""
    moved = step_bytes(model, kv_k, kv_v, depth_tokens)
    if calibration is None or not moved:
        return None
    comparable = [run for run in calibration.runs if run.on_gpu == _on_gpu(settings, calibration)]
    same = [run for run in comparable if run.model_id == model.id]
    runs = (same or comparable)[-10:]
    if not runs:
        return None
    speeds = [run.bytes_per_s / moved for run in runs]
    factor = _few_runs_factor(len(runs))
    if not same:
        factor = max(_OTHER_MODEL_FACTOR, factor)
    return SpeedRange(min(speeds) / factor, max(speeds) * factor, _basis(runs, bool(same)))


def _few_runs_factor(count: int) -> float:
    """How far beyond the runs measured the next may lie.

    Whatever the distribution, one more run falls outside the range of `count` earlier ones with probability
    2 / (count + 1). A lone run may be off by `_LONE_RUN_FACTOR` either way; each further one takes from the
    logarithm of that factor in proportion to the probability: 2.0, 1.59, 1.41, … 1.13 for ten.
    """
    return float(_LONE_RUN_FACTOR ** (2 / (count + 1)))


def _on_gpu(settings: LaunchSettings, calibration: Calibration) -> bool:
    """Where this launch will decode: as asked, or with layers on auto, where the last such run did."""
    return (
        calibration.runs[-1].on_gpu if settings.gpu_layers is None and calibration.runs else bool(settings.gpu_layers)
    )


def _basis(runs: list[DecodeMeasurement], same: bool) -> str:
    count = "one answer" if len(runs) == 1 else f"the last {len(runs)} answers"
    last = runs[-1]
    subject = "this model" if same else f"other models, last {last.model_title}"
    where = "GPU" if last.on_gpu else "CPU"
    return f"{count} of {subject} on this {where}: {last.bytes_per_s / 1e9:.1f} GB/s while decoding"
