"""The order of a comparison and what is left of it."""

from __future__ import annotations

from collections import Counter

from compare_maker import MIXED, Q8, make_setup, quality, speed
from kvarn.domain.compare.kv_pair import REFERENCE
from kvarn.domain.compare.measured import Refusal
from kvarn.domain.compare.steps import SpeedStep, is_complete, remaining_chunks, remaining_speed, speed_steps


def test_each_round_measures_each_pair_once_at_each_depth_between_two_runs_of_the_reference():
    setup = make_setup()
    steps = list(speed_steps(setup))
    assert all(count == 1 for count in Counter(steps).values())
    for number in range(setup.rounds):
        for depth in setup.depths:
            row = [step for step in steps if (step.round, step.depth) == (number, depth)]
            assert [step.pair for step in (row[0], row[-1])] == [REFERENCE, REFERENCE]
            assert {step.pair for step in row} == set(setup.pairs)


def test_every_other_round_goes_backwards():
    steps = [step.pair for step in speed_steps(make_setup(depths=(0,)))]
    assert steps[:4] == steps[4:][::-1]


def test_only_what_has_no_sample_is_left():
    setup = make_setup()
    done = [speed(step.pair, 1.0, number=step.round, depth=step.depth, again=step.again) for step in speed_steps(setup)]
    assert remaining_speed(setup, done[1:]) == (SpeedStep(0, 0, REFERENCE),)
    assert not remaining_speed(setup, done)


def test_a_refused_cell_is_not_tried_again_and_its_pair_goes_on_elsewhere():
    setup = make_setup()
    left = remaining_speed(setup, [Refusal(pair=Q8, depth=512, message="no")])
    assert {step.depth for step in left if step.pair == Q8} == {0}


def test_a_chunk_is_left_until_every_pair_has_read_it():
    setup = make_setup()
    read = [quality(pair, 0, [0.1], 1) for pair in setup.pairs]
    assert remaining_chunks(setup, read) == (1,)
    assert remaining_chunks(setup, read[1:]) == (0, 1)
    without = [*read, *(quality(pair, 1, [0.1], 1) for pair in (REFERENCE, Q8))]
    assert remaining_chunks(setup, [*without, Refusal(pair=MIXED, depth=None, message="no")]) == ()
    assert remaining_chunks(make_setup(quality=None), []) == ()


def test_complete_means_speed_and_quality():
    setup = make_setup(pairs=(REFERENCE,), depths=(0,), rounds=1)
    speeds = [speed(REFERENCE, 1.0), speed(REFERENCE, 1.0, again=True)]
    assert not is_complete(setup, speeds)
    assert is_complete(setup, [*speeds, quality(REFERENCE, 0, [0.0], 1), quality(REFERENCE, 1, [0.0], 1)])
