"""How long it will still take."""

from __future__ import annotations

from compare_maker import MIXED, Q8
from kvarn.domain.compare.kv_pair import REFERENCE
from kvarn.domain.compare.pace import ReadingPace, SpeedPace
from kvarn.domain.compare.steps import SpeedStep


def test_a_run_will_take_what_it_took_and_one_like_it_until_then():
    pace = SpeedPace()
    pace.took(SpeedStep(0, 0, REFERENCE), 2.0)
    pace.took(SpeedStep(0, 0, Q8), 4.0)
    assert pace.left_s([SpeedStep(1, 0, Q8), SpeedStep(0, 0, MIXED)]) == 7.0
    assert pace.left_s([]) == 0


def test_nothing_is_told_about_a_depth_that_was_not_seen():
    pace = SpeedPace()
    pace.took(SpeedStep(0, 0, REFERENCE), 2.0)
    assert pace.left_s([SpeedStep(0, 8192, Q8)]) is None


def test_reading_goes_on_as_it_went():
    pace = ReadingPace(10, 100.0)
    assert pace.left_s(101.0) is None
    pace.read_one()
    pace.read_one()
    assert pace.left_s(104.0) == 16.0
