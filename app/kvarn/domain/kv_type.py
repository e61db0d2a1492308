"""K/V cache types by name: how many bytes a row of values takes.

Numeric ggml type ids are private to one engine build and never appear here. A kvarn engine lists
its own types, with block sizes, in `kvarn-build-info.json`; for a stock engine only names are known
(from `--help`) and `STOCK_KV_TYPES` supplies the sizes.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec


class KvType(msgspec.Struct, frozen=True):
    """One storage format of K or V: `block_values` numbers packed into `block_bytes` bytes."""

    name: str
    block_values: int
    block_bytes: int
    half_block_bytes: int | None = None
    """Bytes of a block of half as many values, for heads that the whole block does not divide; None: there is none."""
    is_rotated: bool = False
    """True when only whole heads of rotated values can be stored, with flash attention or without."""

    def for_heads(self, sizes: Iterable[int]) -> KvType:
        """The layout the engine picks for heads of these sizes, under the same name."""
        if self.half_block_bytes is None or all(size % self.block_values == 0 for size in sizes):
            return self
        return KvType(self.name, self.block_values // 2, self.half_block_bytes, is_rotated=self.is_rotated)

    @property
    def bits_per_value(self) -> float:
        """Stored bits per number, scales included."""
        return self.block_bytes * 8 / self.block_values

    @property
    def is_quantised(self) -> bool:
        """True when values share a scale, which restricts head sizes and needs flash attention for V."""
        return self.block_values > 1

    def row_bytes(self, values: int) -> int:
        """Bytes of a row of `values` numbers. Raises ValueError unless blocks divide the row."""
        if values % self.block_values:
            raise ValueError(f"{self.name} stores blocks of {self.block_values} values; {values} is not a multiple")
        return values // self.block_values * self.block_bytes


# Layouts from ggml-common.h of the pinned base (llama-cpp-python 0.3.36).
STOCK_KV_TYPES: tuple[KvType, ...] = (
    KvType("f32", 1, 4),
    KvType("f16", 1, 2),
    KvType("bf16", 1, 2),
    KvType("q8_0", 32, 34),
    KvType("q5_1", 32, 24),
    KvType("q5_0", 32, 22),
    KvType("q4_1", 32, 20),
    KvType("q4_0", 32, 18),
    KvType("iq4_nl", 32, 18),
)


def stock_kv_type(name: str) -> KvType | None:
    """The stock type of that exact, case-sensitive name."""
    return next((kv for kv in STOCK_KV_TYPES if kv.name == name), None)
