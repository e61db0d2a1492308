"""A cell in words: faster or not, smaller or not, and how much quality it costs; never more than was measured."""

from __future__ import annotations

from kvarn.domain.compare.cells import Cell, Comparison, Floor, Quality, Spread
from kvarn.domain.compare.kv_pair import REFERENCE

# Mean KLD below, equal first choices at least: bands in use among people who quantise models.
_BANDS = ((0.002, 0.99, "no visible loss"), (0.01, 0.97, "minor loss"), (0.05, 0.93, "visible loss"))
_WORST = "large loss"
_NO_DIFFERENCE = "no difference measurable"


def verdict(cell: Cell, comparison: Comparison) -> str:
    """`1.31 × the decode of f16, 73 % smaller, minor loss`; what was refused says why."""
    if cell.pair == REFERENCE:
        return f"reference; {cell.problem}" if cell.problem else "reference"
    reference = next((c for c in comparison.cells if c.pair == REFERENCE and c.depth == cell.depth), None)
    words = [
        speed_words(cell.decode_ratio, comparison.floor.decode_ratio),
        _size_words(cell.kv_bytes, reference.kv_bytes if reference else None),
        quality_words(cell.quality, comparison.floor),
        cell.problem,
    ]
    return ", ".join(filter(None, words)) or "not measured yet"


def speed_words(ratio: Spread | None, floor: Spread | None) -> str:
    """A difference is one when every round lies outside what the reference does to itself."""
    if ratio is None:
        return ""
    # The floor's direction is chance: equal runs differ by that factor upwards as well as downwards.
    swing = max(floor.high, 1 / floor.low) if floor and floor.low > 0 else 1.0
    if ratio.low > swing or ratio.high < 1 / swing:
        return f"{ratio.median:.2f} × the decode of f16"
    return "decode as f16 within noise"


def _size_words(kv_bytes: int | None, reference_bytes: int | None) -> str:
    if not kv_bytes or not reference_bytes or kv_bytes == reference_bytes:
        return ""
    share = 1 - kv_bytes / reference_bytes
    return f"{abs(share) * 100:.0f} % {'smaller' if share > 0 else 'larger'}"


def quality_words(quality: Quality | None, floor: Floor) -> str:
    """Within two standard errors of the floor nothing can be told apart."""
    if quality is None:
        return ""
    base = floor.quality.kld_mean if floor.quality else 0.0
    if quality.kld_mean <= base + 2 * (quality.kld_se or 0.0):
        return _NO_DIFFERENCE
    return next((word for kld, top1, word in _BANDS if quality.kld_mean < kld and quality.top1 >= top1), _WORST)
