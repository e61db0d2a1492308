from __future__ import annotations

import pytest

from kvarn.domain.live import quantities as q
from kvarn.domain.live.engine_counters import EngineCounters
from kvarn.domain.live.engine_meter import EngineFrame, EngineMeter
from kvarn.domain.live.request import FinishedRequest
from kvarn.domain.live.slots import SlotSample


def slot(number=0, task=None, busy=False, held=0, decoded=0, processed=0) -> SlotSample:
    return SlotSample(
        slot=number,
        task=task,
        is_processing=busy,
        context_tokens=2048,
        held_tokens=held,
        prompt_processed=processed,
        prompt_cached=0,
        decoded=decoded,
    )


def totals(prompt=0, cached=0, prompt_s=0.0, answer=0, answer_s=0.0, processing=0, **more) -> EngineCounters:
    return EngineCounters(
        prompt_tokens=prompt,
        cached_tokens=cached,
        prompt_seconds=prompt_s,
        predicted_tokens=answer,
        predicted_seconds=answer_s,
        requests_processing=processing,
        **more,
    )


def run(*frames: tuple[float, tuple[SlotSample, ...], EngineCounters]):
    meter = EngineMeter()
    return meter, [meter.read(EngineFrame(t_s=t, slots=slots, counters=c)) for t, slots, c in frames]


def points(meterings, name):
    return [(p.t_s, p.value) for m in meterings for p in m.points if p.name == name and p.value is not None]


def test_an_answer_too_short_to_be_seen_live_is_drawn_over_the_time_it_took():
    _, read = run(
        (0.0, (slot(),), totals()),
        (0.5, (slot(task=5, held=149),), totals(prompt=100, prompt_s=0.1, answer=50, answer_s=0.2)),
    )
    assert points(read, q.DECODE_TOK_PER_S) == [(0.3, pytest.approx(245)), (0.5, pytest.approx(245))]
    assert points(read, q.PREFILL_TOK_PER_S) == [(0.4, pytest.approx(1000)), (0.5, pytest.approx(1000))]


def test_a_request_seen_live_is_not_drawn_a_second_time_at_its_end():
    frames = [(t / 4, (slot(task=5, busy=True, decoded=10 * t),), totals(processing=1)) for t in range(1, 20)]
    _, read = run((0.0, (slot(),), totals()), *frames, (5.0, (slot(task=5),), totals(answer=195, answer_s=4.8)))
    assert points(read, q.DECODE_TOK_PER_S)[-1][0] == 4.75
    assert {round(v) for _, v in points(read, q.DECODE_TOK_PER_S)} == {40}


def test_the_line_ends_when_the_request_does():
    frames = [(t / 4, (slot(task=5, busy=True, decoded=10 * t),), totals(processing=1)) for t in range(1, 20)]
    _, read = run(*frames, (5.0, (slot(task=5),), totals()))
    assert (q.DECODE_TOK_PER_S, 5.0, None) in read[-1].points
    assert (q.DECODE_RAW_TOK_PER_S, 5.0, None) in read[-1].points


def test_short_answers_side_by_side_add_up():
    both = (slot(0, task=1), slot(1, task=2))
    _, read = run(
        (0.0, (slot(0), slot(1)), totals()),
        (0.5, both, totals(answer=100, answer_s=0.8)),
    )
    assert points(read, q.DECODE_TOK_PER_S)[-1][1] == pytest.approx(98 / 0.4)


def test_one_token_answers_draw_nothing():
    _, read = run((0.0, (slot(),), totals()), (0.5, (slot(task=1),), totals(answer=1, answer_s=1e-6)))
    assert points(read, q.DECODE_TOK_PER_S) == []


def test_speeds_of_all_slots_add_up_and_held_tokens_too():
    frames = [
        (t / 4, (slot(0, 1, True, 50, 10 * t), slot(1, 2, True, 70, 5 * t)), totals(processing=2)) for t in range(12)
    ]
    _, read = run(*frames)
    assert points(read, q.DECODE_TOK_PER_S)[-1][1] == pytest.approx(60)
    assert points(read, q.CONTEXT_TOKENS_USED)[-1][1] == 120


def test_a_finished_request_is_told_from_the_totals_with_the_engines_own_speeds():
    meter, read = run(
        (0.0, (slot(),), totals(prompt=1000, prompt_s=9, answer=500, answer_s=60)),
        (0.5, (slot(task=3, busy=True),), totals(prompt=1000, prompt_s=9, answer=500, answer_s=60, processing=1)),
        (9.0, (slot(task=3, held=179),), totals(1120, 10, 9.5, 550, 61.0)),
    )
    assert read[-1].finished == (
        FinishedRequest(
            ended_s=9.0,
            prompt_tokens=130,
            cached_tokens=10,
            generated_tokens=50,
            prefill_tok_per_s=240,
            decode_tok_per_s=49,
            slot=0,
            task=3,
        ),
    )
    assert meter.unlisted_requests == 0


@pytest.mark.parametrize(
    ("after", "why"),
    [
        (((slot(0, 3, held=99), slot(1, 4, held=99)), totals(100, 0, 1, 100, 1)), "two ended at once"),
        (((slot(0, 3, held=99), slot(1)), totals(200, 0, 1, 100, 1)), "two on one slot: the tokens held disagree"),
    ],
)
def test_requests_that_cannot_be_told_apart_are_counted_and_not_guessed(after, why):
    meter, read = run((0.0, (slot(0), slot(1)), totals()), (0.5, *after))
    assert read[-1].finished == (), why
    assert meter.unlisted_requests > 0


def test_an_end_between_the_two_pages_waits_for_the_next_look():
    """/slots shows both at work, /metrics already has one of them ended: only the next look tells which."""
    busy = (slot(0, 3, True), slot(1, 4, True))
    meter, read = run(
        (0.0, busy, totals(processing=2)),
        (0.25, (slot(0, 3, held=99), slot(1, 4, True)), totals(50, 0, 1, 50, 1, processing=0)),
        (0.5, (slot(0, 3, held=99), slot(1, 4, held=99)), totals(100, 0, 1, 100, 2, processing=0)),
    )
    assert [m.finished for m in read] == [(), (), ()]
    assert meter.unlisted_requests == 2


def test_a_total_too_coarse_to_measure_one_request_gives_no_speed():
    """After 1,234,500 s of answering the print moves in steps of 10 s: three seconds cannot be read off it."""
    _, read = run(
        (0.0, (slot(),), totals(answer=500, answer_s=1_234_500)),
        (0.5, (slot(task=3, held=99),), totals(50, 0, 1, 550, 1_234_510)),
    )
    (request,) = read[-1].finished
    assert request.generated_tokens == 50
    assert request.decode_tok_per_s is None


def test_the_engines_own_list_of_requests_replaces_what_could_be_derived():
    told = FinishedRequest(ended_s=0.5, ttft_ms=12)
    meter = EngineMeter()
    meter.read(EngineFrame(t_s=0, slots=(slot(),), counters=totals(), finished=()))
    counters = totals(50, 0, 1, 50, 1)
    read = meter.read(EngineFrame(t_s=0.5, slots=(slot(task=1, held=99),), counters=counters, finished=(told,)))
    assert read.finished == (told,)


def test_graph_builds_are_counted_per_interval_with_their_reasons_and_a_restart_is_a_gap():
    def built(n, why):
        return totals(graph_built=n, graph_reused=10 * n, graph_rebuilds={"kv_grew": why})

    _, read = run((0, (), built(5, 1)), (1, (), built(7, 2)), (2, (), built(1, 0)), (3, (), built(2, 1)))
    assert points(read, q.GRAPH_BUILT) == [(1, 2), (3, 1)]
    assert points(read, q.GRAPH_REUSED) == [(1, 20), (3, 10)]
    assert points(read, q.GRAPH_BUILT_TOTAL) == [(0, 5), (1, 7), (2, 1), (3, 2)]
    assert [m.rebuilds for m in read] == [
        (),
        ("1 × attention spans more cache cells",),
        (),
        ("1 × attention spans more cache cells",),
    ]


def test_acceptance_is_of_the_requests_that_ended_in_the_interval():
    _, read = run(
        (0, (), totals(drafted_tokens=100, accepted_tokens=50)),
        (1, (), totals(drafted_tokens=100, accepted_tokens=50)),
        (2, (), totals(drafted_tokens=110, accepted_tokens=58)),
    )
    assert points(read, q.DRAFT_ACCEPTANCE) == [(2, pytest.approx(0.8))]


def test_an_engine_without_any_page_says_nothing():
    assert {point.value for point in EngineMeter().read(EngineFrame(t_s=0)).points} == {None}
