"""What a model file's name tells: its part of a split model, and the words two files must share to belong together."""

from __future__ import annotations

import re
from typing import NamedTuple

_SUFFIX = re.compile(r"\.gguf$", re.IGNORECASE)
_LISTED = re.compile(r"\.gguf(\.part)?$", re.IGNORECASE)
_SPLIT = re.compile(r"^(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf$", re.IGNORECASE | re.DOTALL)
_WORD = re.compile(r"[a-z0-9]+")
# A quantisation's or precision's name, cut by `_WORD` into its words: q4, k, m, iq2, xxs, ud, f16, mxfp4, …
_STORAGE_WORD = re.compile(r"^(i?q\d|k|[xsml]{1,3}|[01]|ud|f16|f32|bf16|fp16|fp32|fp8|mxfp4|nvfp4|tq\d|imat|i1)$")
_PROJECTOR_WORDS = frozenset({"mmproj", "model", "gguf"})


class SplitName(NamedTuple):
    """`STEM-00002-of-00003.gguf`, as the engine finds the parts of a split model."""

    stem: str
    number: int
    """Counted from 1."""
    total: int

    def part(self, number: int) -> str:
        """The file name of another part."""
        return f"{self.stem}-{number:05}-of-{self.total:05}.gguf"


def split_name(file_name: str) -> SplitName | None:
    """The parts of a split model's file name; None for any other name."""
    found = _SPLIT.match(file_name)
    if not found:
        return None
    name = SplitName(found["stem"], int(found["number"]), int(found["count"]))
    return name if 1 <= name.number <= name.total and name.total > 1 else None


def is_model_name(file_name: str) -> bool:
    """True for names worth a look: `.gguf` in any case, and a browser's unfinished `.gguf.part`."""
    return bool(_LISTED.search(file_name))


def stem_of(file_name: str) -> str:
    """The name without `.gguf` and without the part number."""
    split = split_name(file_name)
    return split.stem if split else _SUFFIX.sub("", file_name) or file_name


def base_words(file_name: str) -> frozenset[str]:
    """Words that name the model, without those that name its quantisation or mark a projector."""
    words = _WORD.findall(stem_of(file_name).lower())
    return frozenset(word for word in words if word not in _PROJECTOR_WORDS and not _STORAGE_WORD.match(word))
