"""When watching costs what is watched: no core is free, so whatever the console computes is taken from the engine."""

from __future__ import annotations

CROWDED_PERCENT = 90
"""Of all cores in use. The engine's threads wait for each other: one of them held up holds up all."""


def is_crowded(system_cpu_percent: float | None) -> bool:
    """True when no core is free; False when the share is not known."""
    return (system_cpu_percent or 0) >= CROWDED_PERCENT
