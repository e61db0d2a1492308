"""A GGUF header exactly as the file states it, before anyone asks whether it makes sense."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from kvarn.domain.library.model_facts import HParam
from kvarn.domain.library.tensor_type import TENSOR_TYPES

DEFAULT_ALIGNMENT = 32
"""Bytes; what a file without `general.alignment` uses."""


class RawTensor(NamedTuple):
    """One tensor's entry: `dims` innermost first, `offset` in bytes from the start of the data section."""

    name: str
    dims: tuple[int, ...]
    type_id: int
    offset: int

    @property
    def elements(self) -> int:
        """Number of values."""
        product = 1
        for dim in self.dims:
            product *= dim
        return product

    @property
    def size_bytes(self) -> int | None:
        """Stored bytes, None for a type this engine's base does not know."""
        kind = TENSOR_TYPES.get(self.type_id)
        return None if kind is None else self.elements // kind.block_values * kind.block_bytes


class RawHeader(msgspec.Struct, frozen=True, kw_only=True):
    """Keys and tensors of one file. Arrays longer than the reader keeps are absent from `keys`."""

    keys: dict[str, HParam]
    tensors: tuple[RawTensor, ...]
    data_start: int
    """Offset of the data section, alignment applied."""
    file_bytes: int
    vocab_size: int | None = None
    duplicate_token: str | None = None
    """A text that two vocabulary entries share; the engine ends the process on such a file."""

    def text(self, key: str) -> str | None:
        """The value when it is a string."""
        value = self.keys.get(key)
        return value if isinstance(value, str) else None

    def integer(self, key: str) -> int | None:
        """The value when it is a whole number."""
        value = self.keys.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    @property
    def alignment(self) -> int:
        """Bytes between the starts of tensors, as stated."""
        return DEFAULT_ALIGNMENT if (stated := self.integer("general.alignment")) is None else stated
