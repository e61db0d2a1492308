from __future__ import annotations

from kvarn.services.launch.readiness import Silence


def test_silence_grows_with_time_and_ends_with_any_sign() -> None:
    silence = Silence(0.0)
    silence.look(0.0, (0.0, 1.0))
    for second in range(1, 6):
        silence.look(second, (0.0, 1.0))
    assert silence.seconds == 5
    silence.look(6.0, (0.0, 1.5))
    assert silence.seconds == 0


def test_a_trickle_of_cpu_time_is_no_life() -> None:
    silence = Silence(0.0)
    silence.look(0.0, (0.0, 1.0), lively=0.01)
    for second in range(1, 6):
        silence.look(second, (0.0, 1.0 + second * 0.001), lively=0.01)
    assert silence.seconds == 5


def test_a_slow_but_steady_sign_counts_once_it_adds_up() -> None:
    silence = Silence(0.0)
    for second in range(100):
        silence.look(second, (0.0, second * 0.004), lively=0.01)
        assert silence.seconds <= 4


def test_hours_of_suspend_count_as_one_look_and_a_clock_set_back_as_none() -> None:
    silence = Silence(0.0)
    silence.look(0.0, (1.0,))
    silence.look(8 * 3600.0, (1.0,))
    assert silence.seconds <= 2
    silence.look(0.0, (1.0,))
    assert silence.seconds <= 2
