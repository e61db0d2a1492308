"""Quantities as people read them: binary units named as such, thousands separated, absence as a dash."""

from __future__ import annotations

ABSENT = "–"
_STEPS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def bytes_text(amount: int | None) -> str:
    """`1.6 GiB`, `180 MiB`, `512 B`: one decimal below 100 units of GiB, none otherwise."""
    if amount is None:
        return ABSENT
    for size, unit in _STEPS:
        if abs(amount) >= size:
            value = amount / size
            digits = 1 if (unit == "GiB" and abs(value) < 100) or abs(value) < 10 else 0
            return f"{value:,.{digits}f} {unit}"
    return f"{amount:,} B"


def count_text(amount: int | None) -> str:
    """`32,768`."""
    return ABSENT if amount is None else f"{amount:,}"
