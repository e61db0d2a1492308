from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvarn.domain.live.engine_counters import EngineCounters, printed_step
from kvarn.domain.live.exposition import parse_exposition

SCRAPE = """\
# HELP llamacpp:prompt_tokens_total Number of prompt tokens processed, excluding cached tokens
# TYPE llamacpp:prompt_tokens_total counter
llamacpp:prompt_tokens_total 4
# TYPE llamacpp:tokens_predicted_total counter
llamacpp:tokens_predicted_total 1.23457e+06
# TYPE llamacpp:predicted_tokens_seconds gauge
llamacpp:predicted_tokens_seconds 62.5
# TYPE llamacpp:requests_processing gauge
llamacpp:requests_processing 1
# TYPE kvarn:graph_rebuild_total counter
kvarn:graph_rebuild_total{reason="batch shape"} 3
kvarn:graph_rebuild_total{reason="kv window"} 2
"""


def test_a_scrape_becomes_typed_totals_and_what_is_not_offered_is_none():
    counters = parse_exposition(SCRAPE)
    assert counters.prompt_tokens == 4
    assert counters.predicted_tokens == 1_234_570
    assert counters.requests_processing == 1
    assert counters.graph_rebuilds == {"batch shape": 3, "kv window": 2}
    assert counters.graph_built is None
    assert counters.dropped == 0


@pytest.mark.parametrize("value", ["-nan", "nan", "+Inf", "-inf", "1e308", "-5", "1000000000000000000"])
def test_an_absurd_value_is_dropped_and_counted_and_costs_no_other(value):
    counters = parse_exposition(SCRAPE.replace("1.23457e+06", value))
    assert counters.predicted_tokens is None
    assert counters.dropped == 1
    assert counters.prompt_tokens == 4


@pytest.mark.parametrize("line", ["llamacpp:broken{", "llamacpp:broken one two three", "what is this", 'a{b="c} 1'])
def test_an_illegal_line_is_counted_and_costs_no_other(line):
    counters = parse_exposition(SCRAPE + line + "\n")
    assert counters.prompt_tokens == 4
    assert counters.requests_processing == 1
    assert counters.dropped == 1


def test_the_speed_gauges_that_every_scrape_resets_are_not_read():
    assert "62.5" not in str(parse_exposition(SCRAPE))


def test_an_empty_page_offers_nothing():
    assert parse_exposition("") == EngineCounters()


@given(
    st.one_of(
        st.text(), st.text('# TYPEllamacpp:_total{}"=\n 1e-+nan.'), st.lists(st.sampled_from(SCRAPE)).map("".join)
    )
)
def test_no_text_makes_the_parser_raise(text):
    parse_exposition(text)


@pytest.mark.parametrize(("value", "step"), [(0, 0), (4, 1e-5), (36.2077, 1e-4), (123456, 1), (1.23457e6, 10)])
def test_the_resolution_of_a_printed_total_is_known(value, step):
    assert printed_step(value) == pytest.approx(step)
