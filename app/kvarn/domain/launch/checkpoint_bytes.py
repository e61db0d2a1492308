"""RAM that context checkpoints may come to take: what the engine needs to step back in a memory it cannot cut.

A hybrid or recurrent model keeps one state per sequence, a windowed cache forgets: neither can return to an earlier
token. The engine then keeps copies of the part that cannot be cut, within one budget over all slots and its
prompt cache. Source: engine/overlay/tools/server/kvarn-checkpoints.cpp.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvarn.domain.launch.attention_layout import AttentionLayout, UnknownLayout, attention_layout
from kvarn.domain.launch.launch_plan import LaunchSettings, PlanProblem, Severity
from kvarn.domain.library.model_facts import ModelFacts
from kvarn.domain.quantity_text import bytes_text

OPTION = "--ctx-checkpoints-mib"
MAX_MIB = 1 << 20
_MIB = 1 << 20
_DEFAULT_BYTES = 2048 * _MIB
_DEFAULT_SHARE = 10
"""The engine's own choice: this part of the RAM, but no more than the line above."""


def takes_checkpoints(layout: AttentionLayout, settings: LaunchSettings) -> bool:
    """Whether the engine makes any: part of this model's memory cannot be cut."""
    return bool(layout.recurrent_layers or (layout.window_tokens and not settings.swa_full))


def checkpoint_limit_bytes(layout: AttentionLayout, settings: LaunchSettings, ram_bytes: int | None) -> int:
    """Bytes all checkpoints together stay within; 0 when there are none. Unknown RAM gives the engine's most."""
    if not takes_checkpoints(layout, settings):
        return 0
    if settings.checkpoints_mib is not None:
        return settings.checkpoints_mib * _MIB
    return _DEFAULT_BYTES if ram_bytes is None else min(_DEFAULT_BYTES, ram_bytes // _DEFAULT_SHARE)


def one_checkpoint_bytes(layout: AttentionLayout) -> int:
    """float32 state of one sequence: the same at every depth. Windowed layers come on top and are not counted."""
    return layout.recurrent_layers * layout.recurrent_row * 4


def check_checkpoints(facts: ModelFacts, settings: LaunchSettings) -> Iterator[PlanProblem]:
    """A budget out of range, or one that does not hold a single checkpoint."""
    asked = settings.checkpoints_mib
    if asked is None or asked == 0:
        return
    if not 0 < asked <= MAX_MIB:
        yield PlanProblem(
            code="checkpoints-mib-out-of-range",
            message=f"Context checkpoints cannot take {asked:,} MiB.",
            remedy=f"Choose between 0, which makes none, and {MAX_MIB:,} MiB.",
            field="checkpoints_mib",
        )
        return
    layout = attention_layout(facts)
    size = 0 if isinstance(layout, UnknownLayout) else one_checkpoint_bytes(layout)
    if size > asked * _MIB:
        yield PlanProblem(
            code="checkpoints-mib-too-small",
            message=f"One checkpoint of this model takes {bytes_text(size)}; {asked:,} MiB hold none, so a "
            "conversation that is edited is prefilled again from its start.",
            remedy=f"Allow at least {-(-size // _MIB) + 1:,} MiB, or 0 for none.",
            severity=Severity.WARNS,
            field="checkpoints_mib",
        )
