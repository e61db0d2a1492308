"""Quantities and shell words as text."""

from __future__ import annotations

import os
import subprocess

import pytest

from kvarn.domain.quantity_text import bytes_text, count_text
from kvarn.domain.shell_words import shell_text


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (None, "–"),
        (0, "0 B"),
        (1023, "1,023 B"),
        (188_743_680, "180 MiB"),
        (5_000_000, "4.8 MiB"),
        (1_717_986_918, "1.6 GiB"),
        (200 << 30, "200 GiB"),
    ],
)
def test_bytes_read_as_binary_units_and_absence_as_a_dash(amount: int | None, text: str) -> None:
    assert bytes_text(amount) == text


def test_counts_are_grouped_in_thousands() -> None:
    assert count_text(262_144) == "262,144"


def test_a_copied_command_means_exactly_its_words_even_bytes_that_are_no_text() -> None:
    words = ["printf", "%s\\n", "plain", "two words", "it's", "a\nb", os.fsdecode(b"no\xfft'8\\"), "$HOME `id`"]
    said = subprocess.run(["bash", "-c", shell_text(words)], capture_output=True, check=True).stdout
    assert said == b"".join(os.fsencode(word) + b"\n" for word in words[2:])
