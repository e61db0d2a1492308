"""A pair of cache types, and the lists a person types: `f16,q8_0/planar3_0` and `0,4k`."""

from __future__ import annotations

import msgspec


class KvPair(msgspec.Struct, frozen=True, order=True):
    """The type of K and the type of V."""

    k: str
    v: str

    @property
    def name(self) -> str:
        """`q8_0`, or `q8_0/planar3_0` where they differ: as it is typed."""
        return self.k if self.k == self.v else f"{self.k}/{self.v}"


REFERENCE = KvPair("f16", "f16")
"""What every pair is held against."""


def parse_pair(text: str) -> KvPair:
    """One pair as it is typed. Raises ValueError with a sentence."""
    k, slash, v = text.strip().partition("/")
    if not k or (slash and not v) or "/" in v:
        raise ValueError(f"“{text.strip()}” is no cache type; write `q8_0`, or `q8_0/q4_0` for K and V.")
    return KvPair(k, v or k)


def parse_pairs(text: str) -> tuple[KvPair, ...]:
    """The reference first, then every pair once in the order typed. Raises ValueError with a sentence."""
    pairs = [parse_pair(word) for word in text.split(",") if word.strip()]
    if not pairs:
        raise ValueError("Name at least one cache type, e.g. `q8_0,tcq4_0`.")
    return tuple(dict.fromkeys([REFERENCE, *pairs]))


def parse_depths(text: str) -> tuple[int, ...]:
    """Filled depths in tokens, ascending, each once; `4k` is 4,096. Raises ValueError with a sentence."""
    depths = {_depth(word.strip().lower()) for word in text.split(",") if word.strip()}
    if not depths:
        raise ValueError("Name at least one filled depth in tokens, e.g. `0,4096`.")
    return tuple(sorted(depths))


def _depth(word: str) -> int:
    number = word.removesuffix("k")
    # Ten digits are more than any context; int() itself refuses thousands of them.
    if not (number.isascii() and number.isdecimal()) or len(number) > 10:
        raise ValueError(f"“{word}” is no filled depth; write tokens, e.g. `0,4096` or `0,4k`.")
    return int(number) * (1024 if word.endswith("k") else 1)
