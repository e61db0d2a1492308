"""Any text stays one honest line."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvarn.domain.library.one_line import one_line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain name", "plain name"),
        ("new\nline\ttab", "new␊line␉tab"),
        ("a\0b\x7f", "a␀b␡"),
        ("\u202egnp.exe", "⟨U+202E⟩gnp.exe"),
        ("para\u2029graph\u2028", "para⟨U+2029⟩graph⟨U+2028⟩"),
        ("<b>bold</b> &amp; %s {0}", "<b>bold</b> &amp; %s {0}"),
        ("模型 é e\u0301 🦙", "模型 é e\u0301 🦙"),
        ("👩\u200d💻", "👩\u200d💻"),
        ("", ""),
    ],
)
def test_text_is_shown_letter_for_letter_and_controls_are_spelled_out(text: str, shown: str) -> None:
    assert one_line(text) == shown


def test_bytes_that_are_not_utf8_are_shown_as_bytes() -> None:
    assert one_line(os.fsdecode(b"not-utf8-\xff\xfe")) == "not-utf8-\\xff\\xfe"


def test_a_long_text_ends_with_an_ellipsis() -> None:
    assert one_line("w" * 20000, limit=10) == "w" * 9 + "…"


@given(st.text())
def test_the_result_always_is_one_printable_encodable_line(text: str) -> None:
    shown = one_line(text)
    assert len(shown.splitlines()) <= 1
    shown.encode()
