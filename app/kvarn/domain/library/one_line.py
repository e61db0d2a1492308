"""Any text as one honest line: what would move, hide or reorder text is spelled out instead."""

from __future__ import annotations

import unicodedata

_MAX_CHARACTERS = 200


def one_line(text: str, limit: int = _MAX_CHARACTERS) -> str:
    """`text` with control, direction and line-break characters made visible, cut at `limit` with an ellipsis.

    Newline shows as `␊`, a right-to-left override as `⟨U+202E⟩`, a byte that is not UTF-8 as `\\xff`.
    Everything else, markup included, stays letter for letter.
    """
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    return "".join(map(_visible, cut))


def _visible(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)  # Unicode's control pictures
    if code == 0x7F:
        return "␡"
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"  # os.fsdecode's stand-in for an undecodable byte
    if unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp"} and character not in "\u200c\u200d":
        return f"⟨U+{code:04X}⟩"  # joiners stay: scripts and emoji are spelled with them
    return character
