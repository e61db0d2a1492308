"""Colours that carry meaning: the same in every chart, list, report and theme.

The base set is Okabe and Ito's, which stays apart for colour-blind eyes. A colour is never the only
sign: each cache type is always written out by name.
"""

from __future__ import annotations

import colorsys

from kvarn.domain.launch.memory_budget import MemoryKind

BLUE = "#0072B2"
ORANGE = "#E69F00"
GREEN = "#009E73"
PINK = "#CC79A7"
SKY = "#56B4E9"
VERMILION = "#D55E00"

NEUTRAL = "#8A8F96"
"""For whatever has no colour of its own, e.g. a cache type of an engine we do not know."""

CACHE_TYPE_COLOURS: dict[str, str] = {
    "f32": "#004C78",
    "f16": BLUE,
    "bf16": "#4C8FD6",
    "q8_0": SKY,
    "q5_1": "#66A61E",
    "q5_0": "#86B94A",
    "q4_1": "#2BB38F",
    "q4_0": GREEN,
    "iq4_nl": "#1B6E5A",
    "tbq4_0": ORANGE,
    "planar3_0": PINK,
    "tcq4_0": VERMILION,
    "tcq3_0": "#9A4EA8",
}
"""Families share a hue: floats blue, the engine's own blocks green, ours warm."""

MEMORY_COLOURS: dict[MemoryKind, str] = {
    MemoryKind.WEIGHTS: NEUTRAL,
    MemoryKind.KV: ORANGE,
    MemoryKind.RECURRENT: PINK,
    MemoryKind.COMPUTE: SKY,
    MemoryKind.MMPROJ: GREEN,
    MemoryKind.DRAFT: BLUE,
}
OTHER_MEMORY = "#C9C5BB"
DECODE = ORANGE
PREFILL = SKY


def cache_type_colour(name: str) -> str:
    """The fixed colour of a K/V type as `#RRGGBB`; neutral for an unknown one."""
    return CACHE_TYPE_COLOURS.get(name, NEUTRAL)


def contrast_ratio(one: str, other: str) -> float:
    """WCAG 2.2 contrast of two `#RRGGBB` colours, 1 to 21."""
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def readable(colour: str, ground: str, ratio: float = 4.5) -> str:
    """The same hue, moved away from `ground` in lightness until the contrast is at least `ratio`.

    4.5 is WCAG's bound for text, 3 for lines and other graphics.
    """
    hue, light, saturation = colorsys.rgb_to_hls(*_channels(colour))
    step = -0.01 if _luminance(ground) > 0.18 else 0.01
    while contrast_ratio(_hex(hue, light, saturation), ground) < ratio and 0 < light < 1:
        light = min(1.0, max(0.0, light + step))
    return _hex(hue, light, saturation)


def _channels(colour: str) -> tuple[float, float, float]:
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return red, green, blue


def _hex(hue: float, light: float, saturation: float) -> str:
    return "#" + "".join(f"{round(c * 255):02X}" for c in colorsys.hls_to_rgb(hue, light, saturation))


def _luminance(colour: str) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in _channels(colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
