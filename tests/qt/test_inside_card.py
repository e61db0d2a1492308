"""Inside the engine, drawn: a full state scrolls instead of pressing the charts away."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from PySide6.QtCore import Qt

from kvarn.domain.live.live_state import LiveState, parse_live
from kvarn.views.live.inside_card import InsideCard

KINDS = (("full", "target"), ("window", "target"), ("recurrent", "target"), ("full", "draft"))
KEPT = {"count": 3, "bytes": 1 << 20, "budget_bytes": 1 << 30, "saved": 3}


def state(**members: Any) -> LiveState:
    live = parse_live(msgspec.json.encode({"version": 1, "seq": 1, "published": 1, **members}))
    assert live is not None
    return live


def full_state() -> LiveState:
    """A hybrid model with drafts and four busy slots."""
    prompt = {"total": 1000, "cached": 200, "processed": 800}
    sizes = {"type_k": "tbq4_0", "type_v": "tbq4_0", "k_bytes": 9 << 20, "v_bytes": 9 << 20}
    return state(
        slots=[{"id": n, "phase": "decode", "n_ctx": 262144, "held": 9999, "prompt": prompt} for n in range(4)],
        steps={"count": 9, "last": {"tokens": 4, "decode_ms": 7.9, "sampling_ms": 0.3, "other_ms": 0.1}},
        speculation={"kind": "draft-mtp", "adaptive": True, "depth": 3, "drafted": 9, "accepted": 8, "acceptance": [1]},
        kv={"caches": [{"kind": k, "context": c, "cells": 4096, "cells_used": 9, **sizes} for k, c in KINDS]},
        checkpoints=KEPT,
        prompt_cache={"entries": 1, "bytes": 9, "limit_bytes": 99},
        graphs={"ubatches": 7, "built": 3, "reused": 4, "reasons": {"kv_grew": 3}},
    )


@pytest.fixture
def card(qtbot, themed) -> InsideCard:
    card = InsideCard()
    qtbot.addWidget(card)
    card.resize(700, 240)
    card.show()
    qtbot.waitExposed(card)
    return card


def test_a_full_state_is_bounded_in_height_and_scrolls(qtbot, card: InsideCard) -> None:
    card.show_live(full_state(), "")
    content = card.widget().sizeHint().height()
    assert card.sizeHint().height() < content
    qtbot.waitUntil(lambda: card.verticalScrollBar().maximum() > 0)
    assert card.verticalScrollBar().maximum() >= content - card.viewport().height()


def test_a_sentence_takes_no_more_room_than_it_needs(card: InsideCard) -> None:
    card.show_live(None, "Slots appear here while a model is served.")
    assert card.sizeHint().height() < 3 * card.fontMetrics().lineSpacing()
    assert card.verticalScrollBar().maximum() == 0


def test_a_scroll_bar_under_the_slots_covers_none_of_them(qtbot, card: InsideCard) -> None:
    card.show_live(full_state(), "")
    table = card.slots
    needed = 3 * table.verticalHeader().defaultSectionSize()
    card.resize(card.minimumSizeHint().width(), 240)
    qtbot.waitUntil(lambda: table.horizontalScrollBar().maximum() > 0)
    qtbot.waitUntil(lambda: table.viewport().height() >= needed)
    assert card.horizontalScrollBarPolicy() is Qt.ScrollBarPolicy.ScrollBarAlwaysOff


def test_the_last_figure_stays_by_the_others(card: InsideCard) -> None:
    card.show_live(full_state(), "")
    header, column = card.slots.horizontalHeader(), len(card.slots.text_model.columns) - 1
    assert header.sectionSize(column) <= card.slots.sizeHintForColumn(column) + header.sectionSizeHint(column)
    assert header.length() < card.slots.viewport().width()
