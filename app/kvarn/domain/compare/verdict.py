"""A cell in words: faster or not, smaller or not, and how much quality it costs; never more than was measured."""

from __future__ import annotations

from kvarn.domain.compare.cells import Cell, Comparison, Floor, Quality, Spread
from kvarn.domain.compare.kv_pair import REFERENCE

# Mean KLD below, equal first choices at least: bands in use among people who quantise models.
_BANDS = ((0.002, 0.99, "no visible loss"), (0.01, 0.97, "minor loss"), (0.05, 0.93, "visible loss"))
_WORST = "large loss"
_FEW, _LEAST_OF_FEW = 3, 1.1
"""One or two pairs of equal runs may agree by chance; the floor is then not believed to be below a tenth."""
_NO_DIFFERENCE = "no difference measurable"


def verdict(cell: Cell, comparison: Comparison) -> str:
    """`1.31 × the decode of f16, 73 % smaller, minor loss`; what was refused says why."""
    if cell.pair == REFERENCE:
        return f"reference; {cell.problem}" if cell.problem else "reference"
    reference = next((c for c in comparison.cells if c.pair == REFERENCE and c.depth == cell.depth), None)
    words = [
        speed_words(cell.decode_ratio, comparison.floor),
        _size_words(cell.kv_bytes, reference.kv_bytes if reference else None),
        quality_words(cell.quality, comparison.floor),
        cell.problem,
    ]
    return ", ".join(filter(None, words)) or "not measured yet"


def speed_words(ratio: Spread | None, floor: Floor) -> str:
    """A difference is one when every round lies outside what the reference does to itself."""
    if ratio is None:
        return ""
    times = f"{ratio.median:.2f} × the decode of f16"
    if floor.decode_ratio is None or floor.decode_ratio.low <= 0:
        return f"{times}, with unknown noise"
    # The floor's direction is chance: equal runs differ by that factor upwards as well as downwards.
    swing = max(floor.decode_ratio.high, 1 / floor.decode_ratio.low, _LEAST_OF_FEW if floor.runs < _FEW else 1.0)
    return times if ratio.low > swing or ratio.high < 1 / swing else "decode as f16 within noise"


def _size_words(kv_bytes: int | None, reference_bytes: int | None) -> str:
    if not kv_bytes or not reference_bytes or kv_bytes == reference_bytes:
        return ""
    share = 1 - kv_bytes / reference_bytes
    return f"{abs(share) * 100:.0f} % {'smaller' if share > 0 else 'larger'}"


def quality_words(quality: Quality | None, floor: Floor) -> str:
    """Within two standard errors of the floor, in KLD and in first choices, nothing can be told apart."""
    if quality is None:
        return ""
    base, top1 = (floor.quality.kld_mean, floor.quality.top1) if floor.quality else (0.0, 1.0)
    same_kld = quality.kld_mean <= base + 2 * (quality.kld_se or 0.0)
    if same_kld and quality.top1 >= top1 - 2 * quality.top1_se:
        return _NO_DIFFERENCE
    return next((word for kld, share, word in _BANDS if quality.kld_mean < kld and quality.top1 >= share), _WORST)
