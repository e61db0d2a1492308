"""A cell in words."""

from __future__ import annotations

import pytest

from compare_maker import Q8, make_setup, quality, speed
from kvarn.domain.compare.cells import Floor, Quality, Spread, compare
from kvarn.domain.compare.kv_pair import REFERENCE
from kvarn.domain.compare.measured import Refusal
from kvarn.domain.compare.verdict import quality_words, speed_words, verdict

NO_FLOOR = Floor(None, None, None)


def words(samples, pair=Q8):
    table = compare(make_setup(depths=(0,)), samples)
    return verdict(next(c for c in table.cells if c.pair == pair), table)


def test_all_three_are_said():
    samples = [
        speed(REFERENCE, 10.0),
        speed(REFERENCE, 10.1, again=True),
        speed(Q8, 15.0),
        quality(REFERENCE, 0, [0.0] * 100, 100),
        quality(Q8, 0, [0.004, 0.006] * 50, 98),
    ]
    assert words(samples) == "1.49 × the decode of f16, 50 % smaller, minor loss"
    assert words([samples[0], samples[2]]) == "1.50 × the decode of f16, with unknown noise, 50 % smaller"
    assert words(samples, REFERENCE) == "reference"


def test_what_was_refused_says_why():
    assert words([Refusal(pair=Q8, depth=0, message="does not fit")]) == "50 % smaller, does not fit"
    assert words([Refusal(pair=REFERENCE, depth=0, message="does not fit")], REFERENCE) == "reference; does not fit"


@pytest.mark.parametrize(
    ("ratio", "floor", "is_said"),
    [
        (Spread(1.2, 1.1, 1.3), Spread(1.0, 0.95, 1.05), True),
        (Spread(1.2, 1.04, 1.3), Spread(1.0, 0.95, 1.05), False),
        (Spread(1.2, 1.04, 1.3), Spread(1.0, 0.99, 1.01), True),
        (Spread(0.8, 0.7, 0.9), Spread(1.0, 0.95, 1.05), True),
        (Spread(0.8, 0.7, 0.9), Spread(1.0, 1.0, 1.2), False),
        (Spread(1.0, 0.9, 1.1), Spread(1.0, 1.0, 1.0), False),
    ],
)
def test_a_speed_differs_only_beyond_what_the_reference_does_to_itself(ratio, floor, is_said):
    assert ("×" in speed_words(ratio, Floor(None, floor, None, 3))) is is_said


def test_two_equal_runs_that_agree_by_chance_do_not_make_a_difference():
    few, many = (Floor(None, Spread(1.0, 1.0, 1.001), None, runs) for runs in (2, 3))
    assert "×" not in speed_words(Spread(1.05, 1.04, 1.06), few)
    assert "×" in speed_words(Spread(1.05, 1.04, 1.06), many)


@pytest.mark.parametrize(
    ("kld", "top1", "said"),
    [
        (0.0, 1.0, "no difference measurable"),
        (0.0015, 0.995, "no visible loss"),
        (0.0015, 0.98, "minor loss"),
        (0.009, 0.97, "minor loss"),
        (0.009, 0.96, "visible loss"),
        (0.049, 0.93, "visible loss"),
        (0.049, 0.92, "large loss"),
        (0.3, 0.99, "large loss"),
    ],
)
def test_bands_of_quality(kld, top1, said):
    assert quality_words(Quality(kld, 0.0001, top1, 0.01, 1000), NO_FLOOR) == said


def test_within_two_standard_errors_of_the_floor_nothing_is_told_apart():
    floor = Floor(Quality(0.01, 0.001, 0.99, 0.01, 1000), None, None)
    assert quality_words(Quality(0.0119, 0.001, 0.971, 0.01, 1000), floor) == "no difference measurable"
    assert quality_words(Quality(0.0119, 0.001, 0.9, 0.01, 1000), floor) == "large loss", "another first choice is one"
    assert quality_words(Quality(0.0121, 0.001, 0.99, 0.01, 1000), floor) == "visible loss"
