"""Durations and rates as people read them."""

from __future__ import annotations

ABSENT = "–"


def duration_text(seconds: float | None) -> str:
    """`42 s`, `7 min`, `1 h 12 min`, `3 d 4 h`; a dash for None."""
    if seconds is None:
        return ABSENT
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if hours == 0:
        return f"{minutes} min"
    if days == 0:
        return f"{hours} h {minutes % 60} min"
    return f"{days} d {hours % 24} h"


def ago_text(seconds_before_now: float) -> str:
    """Axis label of a moment: `now`, `−30 s`, `−5 min`, `−2 h`."""
    whole = round(seconds_before_now)
    if whole <= 0:
        return "now"
    if whole < 120 or whole % 60:
        return f"−{whole} s"
    return f"−{whole // 60} min" if whole < 7200 else f"−{whole / 3600:g} h"


def rate_text(value: float | None) -> str:
    """`7.4`, `52.8`, `1,204`: three figures are as much as a moving number can be read."""
    if value is None:
        return ABSENT
    return f"{value:,.1f}" if abs(value) < 100 else f"{value:,.0f}"
