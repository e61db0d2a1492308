"""The widths of "Asked / got": nothing is cut off while the column beside it has room to spare."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QObject, Signal

from kvarn.domain.launch.asked_got import AskedGot
from kvarn.views.launch.asked_got_section import AskedGotSection

LONG = "SmolLM2-135M-Instruct-of-a-very-long-name.Q4_1.gguf"


class Rows(QObject):
    """Stands in for the viewmodel."""

    changed = Signal()
    problem = ""

    def __init__(self, *rows: AskedGot) -> None:
        super().__init__()
        self.rows = rows


@pytest.fixture
def widths(qtbot, themed):
    def shown(*rows: AskedGot) -> tuple[tuple[int, int], tuple[int, int]]:
        """Width and need of both value columns."""
        section = AskedGotSection(Rows(*rows))
        qtbot.addWidget(section)
        section.resize(310, 200)
        section.show()
        qtbot.waitExposed(section)
        table = section.table
        assert table.horizontalHeader().length() == table.viewport().width()
        return tuple((table.columnWidth(n), table.sizeHintForColumn(n)) for n in (1, 2))

    return shown


def test_a_long_answer_takes_the_room_a_short_wish_leaves(widths):
    (asked, asked_need), (got, got_need) = widths(AskedGot("Padding", "auto", "grows from 256", None))
    assert asked >= asked_need
    assert got >= got_need


def test_a_long_wish_takes_the_room_a_short_answer_leaves(widths):
    (asked, asked_need), (got, got_need) = widths(AskedGot("Name", "a-name-of-some-length", "told", False))
    assert asked >= asked_need
    assert got >= got_need


def test_two_that_are_too_long_share_evenly(widths):
    (asked, asked_need), (got, _) = widths(AskedGot("Model", LONG, LONG, True))
    assert asked < asked_need
    assert abs(asked - got) <= 1


@pytest.mark.parametrize("size", ["188,743,680", "6,039,797,760"])
def test_figures_stand_whole_before_names_and_labels(widths, size: str):
    names = AskedGot("Model", LONG, LONG, True)
    label = AskedGot("A label longer than any there is", "f16", "f16", True)
    alone = widths(AskedGot("KV bytes", size, size, True))
    for (width, _), (_, need) in zip(widths(names, AskedGot("KV bytes", size, size, True), label), alone, strict=True):
        assert width >= need


def test_the_bytes_of_a_cache_stand_whole_beside_the_longest_label(widths):
    bytes_row = AskedGot("KV bytes", "94,371,840", "94,371,840", True)
    for width, need in widths(bytes_row, AskedGot("Micro-batch", "512", "512", True)):
        assert width >= need
