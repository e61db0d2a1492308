"""The words and figures of the Decode card."""

from __future__ import annotations

from kvarn.domain.live import quantities as q
from kvarn.domain.live.snapshot import snapshot
from kvarn.services.live.telemetry_store import TelemetryStore
from kvarn.viewmodels.live.headlines import Headline, decode_headline


def decode_card(*samples: tuple[str, float, float], run_began_s: float = 0.0) -> Headline:
    store = TelemetryStore(capacity=64)
    store.begin_run(run_began_s)
    for name, t_s, value in (*samples, (q.REQUESTS_PROCESSING, 100, 0)):
        store.append(name, t_s, value)
    return decode_headline(snapshot(store, 100), "")


def test_under_last_answer_stands_the_speed_of_that_whole_answer() -> None:
    card = decode_card((q.DECODE_TOK_PER_S, 80, 15.5), (q.ANSWER_TOK_PER_S, 81, 21.5))
    assert (card.value, card.sub, card.is_dim) == ("21.5", "idle, last answer", True)


def test_a_speed_whose_answer_was_not_listed_is_not_called_an_answers() -> None:
    card = decode_card((q.DECODE_TOK_PER_S, 80, 15.5))
    assert (card.value, card.sub) == ("15.5", "idle, last seen")


def test_an_engine_that_was_never_asked_has_no_answer_whatever_the_last_one_did() -> None:
    card = decode_card((q.DECODE_TOK_PER_S, 80, 24.0), (q.ANSWER_TOK_PER_S, 81, 24.0), run_began_s=90)
    assert (card.value, card.sub) == (None, "no answer yet")
