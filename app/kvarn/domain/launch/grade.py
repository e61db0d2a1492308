"""How good a prediction turned out to be."""

from __future__ import annotations

import msgspec


class Grade(msgspec.Struct, frozen=True, kw_only=True):
    """One predicted quantity beside what was measured after the load."""

    model_id: str
    quantity: str
    """`kv_bytes`, `total_bytes`, `decode_tok_per_s`, …"""
    predicted: float
    measured: float

    @property
    def error(self) -> float | None:
        """(measured - predicted) / predicted; None when nothing was predicted."""
        return (self.measured - self.predicted) / self.predicted if self.predicted else None
