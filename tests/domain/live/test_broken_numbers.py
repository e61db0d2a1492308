"""Numbers no engine can mean: they end at the wire, so that nothing behind it overflows."""

from __future__ import annotations

import json

import pytest

from kvarn.domain.live.request_wire import parse_requests
from kvarn.domain.live.slots import parse_slots


@pytest.mark.parametrize("count", [10**300, 1 << 64, -(1 << 60), 1.5, "8", None, [1]])
def test_a_count_beyond_reason_makes_the_page_unreadable(count) -> None:
    page = {"last_seq": 1, "requests": [{"seq": 1, "predicted_n": 9, "predicted_ms": 1.0}]}
    assert parse_requests(json.dumps(page).encode(), 0.0) is not None
    assert parse_requests(json.dumps(page | {"last_seq": count}).encode(), 0.0) is None
    slot = {"id": 0, "is_processing": True}
    assert parse_slots(json.dumps([slot]).encode()) is not None
    assert parse_slots(json.dumps([slot | {"n_prompt_tokens": count}]).encode()) is None


@pytest.mark.parametrize("milliseconds", [1e-300, 5e-324, 0, -1])
def test_no_time_at_all_is_no_speed(milliseconds) -> None:
    page = {"last_seq": 1, "requests": [{"seq": 1, "predicted_n": 9, "predicted_ms": milliseconds}]}
    batch = parse_requests(json.dumps(page).encode(), 0.0)
    assert batch is not None
    assert batch.requests[0].decode_tok_per_s is None
