from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvarn.domain.live.rates import CounterGrowth, CountSpeed


@given(st.lists(st.tuples(st.floats(0.01, 5), st.one_of(st.none(), st.integers(0, 1000))), max_size=50))
def test_growth_is_never_negative_and_its_parts_add_up_to_the_rise_within_each_segment(looks):
    growth, t, last, risen, told = CounterGrowth(), 0.0, None, 0.0, 0.0
    for step, total in looks:
        t += step
        seen = growth.look(t, total)
        assert seen is None or (seen.amount >= 0 and seen.seconds == pytest.approx(step))
        if last is None or total is None or total < last:
            assert seen is None
        else:
            risen += total - last
            told += seen.amount
        last = total
    assert told == risen


def test_a_restarted_engine_begins_a_new_segment_instead_of_a_jump():
    growth = CounterGrowth()
    assert [growth.look(t, n) for t, n in enumerate([100_000, 100_050, 10, 20])] == [None, (50, 1), None, (10, 1)]


def test_two_looks_at_the_same_moment_give_no_speed():
    growth = CounterGrowth()
    growth.look(1, 5)
    assert growth.look(1, 9) is None


@given(st.floats(3, 400), st.floats(0, 1))
def test_the_mean_of_a_steady_count_is_its_speed(tok_per_s, phase):
    speed = CountSpeed(least_s=0.5)
    for look in range(25):
        t = look / 4
        speed.look(t, int(tok_per_s * t + phase))
    # Steps and looks both come in grains: one step and one look of the two-second window may be off.
    assert speed.mean(6) == pytest.approx(tok_per_s, rel=0.14, abs=0.5)


def test_the_time_before_the_first_step_is_not_in_the_speed():
    """A count that stood at zero through ten seconds of prompt and then ran at 40 a second is 40, not less."""
    speed = CountSpeed(least_s=0.5)
    for look in range(60):
        t = look / 4
        speed.look(t, max(0, int(40 * (t - 10))))
    assert speed.mean(14.75) == pytest.approx(40, rel=0.05)


def test_one_step_gives_no_speed_at_all():
    speed = CountSpeed(least_s=0.5)
    assert [speed.look(t, n) for t, n in [(0, 0), (1, 1), (2, 1)]] == [None] * 3
    assert speed.mean(3) is None


def test_a_count_that_stalls_loses_speed_while_it_waits():
    speed = CountSpeed(least_s=0.5)
    for look in range(13):
        speed.look(look / 4, look * 10)
    assert speed.mean(3) == pytest.approx(40)
    assert 0 < speed.mean(8) < 15
    assert speed.mean(60) < speed.mean(8)


def test_a_count_that_falls_starts_over():
    speed = CountSpeed(least_s=0.5)
    for look in range(8):
        speed.look(look / 4, look * 10)
    speed.look(2.25, 0)
    assert speed.mean(2.25) is None


def test_the_raw_speed_waits_for_four_steps_or_a_second_so_that_it_means_something():
    speed = CountSpeed(least_s=0.5)
    raws = [speed.look(t / 4, n) for t, n in enumerate([0, 1, 2, 3, 4, 4, 9])]
    assert raws[:4] == [None] * 4
    assert [raw for raw in raws if raw] == pytest.approx([8 / 1.25])
