"""The bindings' type numbers: `llama_cpp.GGML_TYPE_…` follows the patched ggml.h, so no number is written twice."""

from __future__ import annotations

import re
from pathlib import Path

from .pin import EngineBuildError

_OURS = re.compile(r"^\s*GGML_TYPE_KVARN_(\w+)\s*=\s*(\d+)\s*,", re.MULTILINE)
_COUNT = re.compile(r"^(\s*|#\s*)GGML_TYPE_COUNT(\s*)=\s*\d+", re.MULTILINE)


def name_our_types(bindings: Path, header: Path) -> None:
    """Add `GGML_TYPE_KVARN_X` and the short `GGML_TYPE_X` for each of our types to llama_cpp.py, and set the count."""
    text = bindings.read_text(encoding="utf-8")
    enum = header.read_text(encoding="utf-8")
    ours = _OURS.findall(enum)
    count = re.search(r"GGML_TYPE_COUNT\s*=\s*(\d+)", enum)
    place = re.search(r"^GGML_TYPE_COUNT = \d+$", text, re.MULTILINE)
    if not ours or not count or not place:
        raise EngineBuildError(
            "ggml.h or llama_cpp.py no longer list their types as expected: teach bindings.py the new way."
        )
    lines = [f"GGML_TYPE_KVARN_{name} = {number}\nGGML_TYPE_{name} = GGML_TYPE_KVARN_{name}\n" for name, number in ours]
    text = text[: place.start()] + "".join(lines) + text[place.start() :]
    bindings.write_text(_COUNT.sub(rf"\g<1>GGML_TYPE_COUNT\g<2>= {count[1]}", text), encoding="utf-8")
