"""Which run a comparison goes on with."""

from __future__ import annotations

import pytest

from compare_maker import Q8, make_setup, quality, speed
from kvarn.domain.compare.kv_pair import REFERENCE
from kvarn.domain.compare.measured import Refusal
from kvarn.domain.compare.steps import speed_steps
from kvarn.domain.errors import ResultError
from kvarn.services.compare.compare_store import CompareStore
from kvarn.services.run_store import RunStore


@pytest.fixture
def runs(tmp_path) -> RunStore:
    return RunStore(tmp_path / "results.sqlite")


@pytest.fixture
def store(runs) -> CompareStore:
    return CompareStore(runs)


def test_everything_comes_back_as_it_was(store):
    setup = make_setup()
    run = store.begin(setup)
    kept = {speed(Q8, 1.5, again=True), quality(Q8, 1, [0.1, 0.2], 1), Refusal(pair=Q8, depth=None, message="no")}
    for sample in kept:
        store.keep(run, sample)
    assert store.setup(run) == setup
    assert set(store.samples(run)) == kept


def test_an_unfinished_run_goes_on_unless_a_fresh_one_is_asked(store):
    run = store.begin(make_setup())
    store.keep(run, speed(Q8, 1.0))
    assert store.begin(make_setup()).id == run.id
    assert store.begin(make_setup(), fresh=True).id != run.id


@pytest.mark.parametrize("change", [{"rounds": 3}, {"engine_version": "2"}, {"depths": (0,)}, {"threads": 1}])
def test_another_setup_is_another_run(store, change):
    run = store.begin(make_setup())
    assert store.begin(make_setup(**change)).id != run.id


def test_a_finished_run_is_left_alone(store):
    setup = make_setup(quality=None, pairs=(REFERENCE,), depths=(0,))
    run = store.begin(setup)
    for step in speed_steps(setup):
        store.keep(run, speed(step.pair, 1.0, number=step.round, depth=step.depth, again=step.again))
    assert store.begin(setup).id != run.id


def test_what_was_refused_is_tried_again_when_a_run_goes_on(store):
    setup = make_setup(quality=None, pairs=(REFERENCE,), depths=(0,), rounds=1)
    run = store.begin(setup)
    store.keep(run, speed(REFERENCE, 1.0))
    store.keep(run, Refusal(pair=REFERENCE, depth=0, message="no"))
    again = store.begin(setup)
    assert again.id == run.id
    assert store.samples(again) == (speed(REFERENCE, 1.0),)


def test_a_run_of_another_kind_is_not_shown_as_a_comparison(store, runs):
    run = runs.add_run(kind="loadtest", digest="d", title="t", setup=b"{}")
    with pytest.raises(ResultError, match="loadtest"):
        store.setup(run)


def test_a_sample_that_cannot_be_read_names_the_run_and_the_cure(store, runs):
    run = store.begin(make_setup())
    runs.keep(run.id, "speed", b"{}")
    with pytest.raises(ResultError, match=f"kvarn runs delete {run.id}"):
        store.samples(run)
