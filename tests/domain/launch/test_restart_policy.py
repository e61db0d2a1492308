from __future__ import annotations

from kvarn.domain.launch.restart_policy import NO_RESTARTS, RestartPolicy


def test_pauses_grow_and_end_after_three() -> None:
    pauses = [RestartPolicy().pause_s(made, served_s=5.0) for made in range(4)]
    assert pauses[:3] == sorted(pauses[:3])
    assert pauses[3] is None


def test_a_load_that_failed_is_not_tried_again() -> None:
    assert RestartPolicy().pause_s(0, served_s=None) is None


def test_an_engine_that_served_long_starts_with_a_clean_record() -> None:
    assert RestartPolicy().pause_s(3, served_s=3600.0) == RestartPolicy().pause_s(0, served_s=5.0)


def test_restarts_can_be_switched_off() -> None:
    assert NO_RESTARTS.pause_s(0, served_s=3600.0) is None
