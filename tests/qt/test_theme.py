"""Colours can be read, and text is shown letter for letter."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication

from kvarn.domain.colours import CACHE_TYPE_COLOURS, MEMORY_COLOURS, cache_type_colour, contrast_ratio
from kvarn.domain.settings import ThemeChoice
from kvarn.views.theme import DARK, LIGHT, Palette, Theme
from kvarn.views.widgets.error_card import ErrorCard
from kvarn.views.widgets.hairline_table import HairlineTable
from kvarn.views.widgets.headline_figure import HeadlineFigure
from kvarn.views.widgets.labels import ElidedLabel, PlainLabel, plain_tip

TRAPS = [
    "<i>tilted</i> 1 < 2 && 3 > 2",
    "#include <vector>",
    "&gt;already escaped&lt;",
    "<img src=x onerror=run()>",
    "</td></tr>",
    "%1 %s {name}",
    'x,y;z\tq"r"\nsecond line',
    "=2+2",
    "型号 é é 🦙",
    "m" * 20_000,
    "",
    " ",
]


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_every_text_colour_keeps_four_and_a_half_to_one_on_every_ground(palette: Palette) -> None:
    grounds = (palette.ground, palette.card, palette.sunken, palette.chip, palette.selection)
    assert min(contrast_ratio(palette.ink, g) for g in grounds) >= 4.5
    quiet = (palette.mute, palette.accent, palette.good, palette.warn, palette.bad)
    low = {(ink, g): contrast_ratio(ink, g) for ink in quiet for g in grounds[:3] if contrast_ratio(ink, g) < 4.5}
    assert not low
    assert contrast_ratio(palette.mute, palette.chip) >= 4.5
    assert contrast_ratio(palette.on_accent, palette.accent) >= 4.5
    assert contrast_ratio(palette.on_accent, palette.accent_hover) >= 4.5


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_meaning_colours_are_visible_as_lines_and_readable_as_labels(palette: Palette) -> None:
    for colour in (*CACHE_TYPE_COLOURS.values(), *MEMORY_COLOURS.values()):
        assert contrast_ratio(palette.line_colour(colour), palette.card) >= 3
        assert contrast_ratio(palette.label_colour(colour), palette.card) >= 4.5


def test_each_cache_type_has_a_colour_of_its_own_and_an_unknown_one_is_neutral() -> None:
    assert len(set(CACHE_TYPE_COLOURS.values())) == len(CACHE_TYPE_COLOURS)
    assert {"tbq4_0", "planar3_0", "tcq4_0", "tcq3_0"} <= CACHE_TYPE_COLOURS.keys()
    assert cache_type_colour("from-another-fork") not in CACHE_TYPE_COLOURS.values()


def test_the_theme_switches_while_running(themed: Theme, qapp: QApplication) -> None:
    light = qapp.styleSheet()
    themed.choose(ThemeChoice.DARK)
    assert themed.palette is DARK
    assert qapp.styleSheet() != light


@pytest.mark.parametrize("text", TRAPS, ids=range(len(TRAPS)))
def test_widgets_show_text_letter_for_letter(qtbot, themed: Theme, text: str) -> None:
    label, elided, figure, card = PlainLabel(text), ElidedLabel(text), HeadlineFigure(text, "x"), ErrorCard()
    table = HairlineTable(("<name", "n"), "names")
    for widget in (label, elided, figure, card, table):
        qtbot.addWidget(widget)
    table.set_rows([(text, "1")])
    card.show_error(text, text, words=text, context=text)
    assert label.textFormat() is Qt.TextFormat.PlainText
    assert elided.textFormat() is Qt.TextFormat.PlainText
    assert all(part.textFormat() is Qt.TextFormat.PlainText for part in card.findChildren(PlainLabel))
    shown = table.model().index(0, 0).data()
    assert shown.startswith(text[:100].replace("\n", "⏎").replace("\t", "⇥"))
    for widget in (elided, figure, card, table):
        widget.resize(300, 80)
        widget.grab()


def test_a_tool_tip_never_renders_markup() -> None:
    assert "<b>" not in plain_tip("<b>bold</b>")
    assert "&lt;b&gt;" in plain_tip("<b>bold</b>")
