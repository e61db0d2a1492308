"""Cache types by name: bytes of a row, and the two block sizes behind one name."""

from __future__ import annotations

import pytest

from kvarn.domain.kv_type import KvType, stock_kv_type

TBQ4 = KvType("tbq4_0", 128, 66, 34, is_rotated=True)


@pytest.mark.parametrize(
    ("sizes", "values", "row_bytes"),
    [((128,), 128, 132), ((256, 128), 128, 132), ((64,), 64, 136), ((128, 192), 64, 136)],
)
def test_one_block_size_serves_all_heads_of_a_model(sizes, values, row_bytes):
    picked = TBQ4.for_heads(sizes)
    assert (picked.name, picked.block_values) == ("tbq4_0", values)
    assert picked.row_bytes(256) == row_bytes
    assert picked.is_rotated


def test_bits_are_those_of_the_block_that_is_used():
    assert TBQ4.bits_per_value == 4.125
    assert TBQ4.for_heads((64,)).bits_per_value == 4.25


def test_types_without_a_half_block_stay_as_they_are():
    q8_0 = stock_kv_type("q8_0")
    assert q8_0.for_heads((80,)) is q8_0
    assert not q8_0.is_rotated


def test_a_row_that_blocks_do_not_divide_is_refused_by_name():
    with pytest.raises(ValueError, match=r"tbq4_0 stores blocks of 128 values; 192 is not a multiple"):
        TBQ4.row_bytes(192)
