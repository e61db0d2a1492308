from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvarn.domain.live.slots import SlotSample, SlotSpeed, has_ended, parse_slots

IDLE = {"id": 0, "n_ctx": 2048, "speculative": False, "is_processing": False}
BUSY = IDLE | {
    "id": 1,
    "is_processing": True,
    "id_task": 2,
    "n_prompt_tokens": 103,
    "n_prompt_tokens_processed": 4,
    "n_prompt_tokens_cache": 7,
    "params": {"seed": 4294967295, "stop": ["</s>"]},
    "next_token": [{"has_next_token": True, "n_remain": -1, "n_decoded": 100}],
}


def sample(**changes) -> SlotSample:
    facts = {"slot": 0, "task": 1, "is_processing": True, "context_tokens": 2048, "held_tokens": 0}
    return SlotSample(**(facts | {"prompt_processed": 0, "prompt_cached": 0, "decoded": 0} | changes))


def test_a_slot_that_never_worked_and_one_at_work_are_both_read():
    idle, busy = parse_slots(json.dumps([IDLE, BUSY]).encode())
    assert idle == sample(task=None, is_processing=False)
    assert busy == sample(slot=1, task=2, held_tokens=103, prompt_processed=4, prompt_cached=7, decoded=100)


def test_the_older_form_with_one_token_object_is_read_too():
    (slot,) = parse_slots(json.dumps([BUSY | {"next_token": {"n_decoded": 5}}]).encode())
    assert slot.decoded == 5


@pytest.mark.parametrize("body", [b"", b"{}", b"[1]", b"\xff\xfe", b'[{"id": "x", "is_processing": 1}]', b"null"])
def test_an_unreadable_page_is_none_and_never_raises(body):
    assert parse_slots(body) is None


@given(st.binary())
def test_no_bytes_make_the_parser_raise(body):
    parse_slots(body)


def test_prompt_and_answer_speeds_are_apart_and_exclude_waiting():
    """20 s in the queue, 4 s of prompt at 512 tokens a second, then 40 tokens a second."""
    speed, prefill, decode = SlotSpeed(), [], []
    for look in range(160):
        t = look / 4
        if t < 20:
            now = sample(task=None, is_processing=False)
        elif t < 24:
            now = sample(prompt_processed=int((t - 20) * 2) * 256)
        else:
            now = sample(prompt_processed=2048, decoded=int((t - 24) * 40) + 1)
        speed.look(t, now)
        prefill.append(speed.prefill(t, now))
        decode.append(speed.decode(t))
    assert {round(p) for p in prefill if p} == {512}
    assert [t / 4 for t, p in enumerate(prefill) if p][-1] < 24
    assert {round(d) for d in decode if d} <= {39, 40, 41}
    assert next(t / 4 for t, d in enumerate(decode) if d) == pytest.approx(24.75, abs=0.5)


def test_an_answer_of_one_token_has_no_speed():
    speed = SlotSpeed()
    for look in range(20):
        speed.look(look / 4, sample(prompt_processed=100, decoded=1))
    assert speed.decode(5) is None
    assert speed.decode_raw() is None


def test_the_next_request_on_a_slot_does_not_inherit_the_speed_of_the_last():
    speed = SlotSpeed()
    for look in range(20):
        speed.look(look / 4, sample(decoded=10 * look))
    assert speed.decode(4.75) is not None
    speed.look(5, sample(task=2, decoded=500))
    assert speed.decode(5) is None


@pytest.mark.parametrize(
    ("before", "now", "ended"),
    [
        ((1, True), (1, True), False),
        ((1, True), (1, False), True),
        ((1, True), (2, True), True),
        ((1, False), (2, False), True),
        ((1, False), (2, True), False),
        ((None, False), (2, False), True),
        ((1, False), (1, False), False),
    ],
)
def test_the_end_of_a_request_is_seen_even_when_it_lived_between_two_looks(before, now, ended):
    one, two = (sample(task=task, is_processing=busy) for task, busy in (before, now))
    assert has_ended(one, two) is ended
