"""Words quoted for a POSIX shell, file names that are not UTF-8 included."""

from __future__ import annotations

import shlex
from collections.abc import Iterable


def shell_text(words: Iterable[str]) -> str:
    """A command line that can be pasted into a shell and means exactly these words."""
    return " ".join(map(_quoted, words))


def _quoted(word: str) -> str:
    if not any(0xDC80 <= ord(c) <= 0xDCFF for c in word):
        return shlex.quote(word)
    # A window's text cannot hold such bytes; $'…' spells them.
    spelled = "".join(
        chr(b) if 0x20 <= b < 0x7F and b not in b"'\\" else f"\\x{b:02x}"
        for b in word.encode("utf-8", "surrogateescape")
    )
    return f"$'{spelled}'"
