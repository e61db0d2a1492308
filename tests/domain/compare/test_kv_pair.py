"""What a person types as cache types and depths."""

from __future__ import annotations

import pytest

from kvarn.domain.compare.kv_pair import REFERENCE, KvPair, parse_depths, parse_pairs


def test_the_reference_comes_first_and_nothing_twice():
    found = parse_pairs("q8_0,f16, q8_0/tbq4_0,q8_0/q8_0")
    assert found == (REFERENCE, KvPair("q8_0", "q8_0"), KvPair("q8_0", "tbq4_0"))


@pytest.mark.parametrize("name", ["q8_0", "q8_0/tbq4_0"])
def test_a_pair_is_named_as_it_is_typed(name):
    assert parse_pairs(name)[1].name == name


@pytest.mark.parametrize("text", ["", " , ", "q8_0/", "/q8_0", "a/b/c"])
def test_what_is_no_pair_is_told(text):
    with pytest.raises(ValueError, match=r"\.$"):
        parse_pairs(text)


def test_depths_are_sorted_and_k_is_1024():
    assert parse_depths("4k,0, 512,4096,0") == (0, 512, 4096)


@pytest.mark.parametrize("text", ["", "-1", "4.5", "k", "many", "1e3", "²", "9" * 5000])
def test_what_is_no_depth_is_told(text):
    with pytest.raises(ValueError, match=r"\.$"):
        parse_depths(text)
