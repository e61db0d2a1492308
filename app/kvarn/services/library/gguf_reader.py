"""Read a GGUF header as a bounded stream: no more than its own bytes, whatever its counts claim.

Why not the kept `gguf` package: see app/decisions/0201-own-header-reader.md.
Format: the GGUF specification, checked against `ggml/src/gguf.cpp` of the pinned base.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import BinaryIO

from kvarn.domain.library.foreign_file import foreign_problem
from kvarn.domain.library.header_facts import read_header
from kvarn.domain.library.header_problems import incomplete
from kvarn.domain.library.header_reading import HeaderReading, refused
from kvarn.domain.library.model_facts import HParam, Scalar
from kvarn.domain.library.one_line import one_line
from kvarn.domain.library.raw_header import DEFAULT_ALIGNMENT, RawHeader, RawTensor

MAX_HEADER_BYTES = 128 << 20
"""Real headers are below 30 MB."""
_MAX_KEYS = 1 << 16
_MAX_TENSORS = 1 << 16
_MAX_STRINGS = 2_000_000
"""Over all arrays of one file; keeps the worst header below two seconds."""
_MAX_DIMS = 4
_MAX_NAME_BYTES = 64
_KEPT_TEXT_BYTES = 4096
_KEPT_NUMBERS = 4096
_KEPT_NUMBERS_TOTAL = 1 << 18
_KEPT_STRINGS = 64
_FIRST_CHUNK_BYTES = 64 << 10

_STRING, _ARRAY = 8, 9
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_SCALAR_READERS = {kind: struct.Struct("<" + code) for kind, code in _SCALARS.items()}
_U32, _U64 = struct.Struct("<I"), struct.Struct("<Q")


class _HeaderCut(Exception):
    """The file ends inside its header."""


class _HeaderDamaged(Exception):
    """The header contradicts itself; the message completes “The header is damaged: it …”."""


def read_gguf(file: BinaryIO, file_bytes: int) -> HeaderReading:
    """What the header of an open regular file of that size says. Raises OSError when reading fails."""
    stream = _HeaderStream(file, file_bytes)
    if problem := foreign_problem(stream.peek(1024)):
        return HeaderReading(file_bytes=file_bytes, problem=problem)
    try:
        return read_header(_parse(stream))
    except _HeaderCut:
        return HeaderReading(file_bytes=file_bytes, problem=incomplete(file_bytes, None))
    except _HeaderDamaged as damage:
        return refused("damaged", f"The header is damaged: it {damage}. Download the file again.", file_bytes)


class _HeaderStream:
    """The beginning of a file, read as far as it was asked for, and a position in it."""

    def __init__(self, file: BinaryIO, file_bytes: int) -> None:
        self._file = file
        self.file_bytes = file_bytes
        self.data = b""
        self.at = 0

    def peek(self, count: int) -> bytes:
        """The first bytes, fewer when the file is shorter."""
        self._grow(min(count, self.file_bytes))
        return self.data[:count]

    def require(self, end: int) -> None:
        """Make `data` reach up to the offset `end`."""
        if end > self.file_bytes:
            raise _HeaderCut
        if end > MAX_HEADER_BYTES:
            raise _HeaderDamaged(f"is longer than {MAX_HEADER_BYTES >> 20} MiB")
        self._grow(end)
        if end > len(self.data):
            raise _HeaderCut  # the file shrank meanwhile

    def _grow(self, end: int) -> None:
        while len(self.data) < end:
            # Doubling: few large reads, and never more than twice the header.
            chunk = self._file.read(max(end - len(self.data), len(self.data), _FIRST_CHUNK_BYTES))
            if not chunk:
                return
            self.data += chunk

    def take(self, count: int) -> bytes:
        """The next bytes."""
        start = self._advance(count)
        return self.data[start : self.at]

    def unpack(self, reader: struct.Struct) -> Scalar:
        """The next number."""
        start = self._advance(reader.size)  # first: it may replace `data`
        value: Scalar = reader.unpack_from(self.data, start)[0]
        return value

    def skip(self, count: int) -> None:
        """Pass over bytes."""
        self._advance(count)

    def _advance(self, count: int) -> int:
        start, self.at = self.at, self.at + count
        if self.at > len(self.data):
            self.require(self.at)
        return start

    def u32(self) -> int:
        """The next 32-bit count or type."""
        return int(self.unpack(_U32))

    def u64(self) -> int:
        """The next 64-bit count, length or offset."""
        return int(self.unpack(_U64))

    def text(self) -> str:
        """The next string, at most its first 4 KiB; bytes that are not UTF-8 are replaced."""
        raw = self.take(self.u64())
        return raw[:_KEPT_TEXT_BYTES].decode("utf-8", "replace")

    def strings(self, count: int, keep: Callable[[bytes], None] | None) -> None:
        """Hand the next strings, each with its length in front, to `keep`, or pass over them.

        This loop decides the cost of a large vocabulary.
        """
        length_at, data, at, limit, done = _U64.unpack_from, self.data, self.at, len(self.data), 0
        while done < count:
            try:
                for index in range(done, count):
                    done = index
                    end = at + 8 + length_at(data, at)[0]
                    if end > limit:
                        self.require(end)
                        data, limit = self.data, len(self.data)
                    if keep:
                        keep(data[at:end])
                    at = end
                done = count
            except struct.error:  # not even the length is there yet
                self.require(at + 8)
                data, limit = self.data, len(self.data)
        self.at = at


class _Parser:
    """The state of one parse: what was found, and how many strings were paid for."""

    def __init__(self, stream: _HeaderStream) -> None:
        self.stream = stream
        self.keys: dict[str, HParam] = {}
        self.seen: set[bytes] = set()
        self.vocab_size: int | None = None
        self.duplicate_token: str | None = None
        self.strings_left = _MAX_STRINGS
        self.numbers_left = _KEPT_NUMBERS_TOTAL

    def read_key(self) -> None:
        """One key and its value; long arrays are passed over."""
        stream = self.stream
        raw = stream.take(stream.u64())
        name = raw[:_KEPT_TEXT_BYTES].decode("utf-8", "replace")
        if not raw:
            raise _HeaderDamaged("has a key without a name")
        if raw in self.seen:
            raise _HeaderDamaged(f"has the key {one_line(name, 80)} twice")
        self.seen.add(raw)
        kind = stream.u32()
        value = self._read_array(name) if kind == _ARRAY else self._read_scalar(kind, name)
        if value is not None:
            self.keys[name] = value

    def _read_scalar(self, kind: int, name: str) -> Scalar:
        if kind == _STRING:
            return self.stream.text()
        if kind not in _SCALAR_READERS:
            raise _HeaderDamaged(f"gives the key {one_line(name, 80)} the unknown type {kind}")
        return self.stream.unpack(_SCALAR_READERS[kind])

    def _read_array(self, name: str) -> HParam | None:
        kind, count = self.stream.u32(), self.stream.u64()
        if kind == _STRING:
            return self._read_strings(name, count)
        if kind not in _SCALAR_READERS:
            raise _HeaderDamaged(f"gives the list {one_line(name, 80)} the unknown type {kind}")
        size = count * _SCALAR_READERS[kind].size
        if count > min(_KEPT_NUMBERS, self.numbers_left) or name.startswith("tokenizer."):
            self.stream.skip(size)
            return None
        self.numbers_left -= count
        return struct.unpack(f"<{count}{_SCALARS[kind]}", self.stream.take(size))

    def _read_strings(self, name: str, count: int) -> HParam | None:
        if count * 8 > self.stream.file_bytes:
            raise _HeaderCut
        self.strings_left -= count
        if self.strings_left < 0:
            raise _HeaderDamaged(f"lists {count:,} texts in {one_line(name, 80)}")
        is_vocabulary = name == "tokenizer.ggml.tokens"
        is_kept = count <= _KEPT_STRINGS and not name.startswith("tokenizer.")
        found: list[bytes] = []
        self.stream.strings(count, found.append if is_vocabulary or is_kept else None)
        if is_vocabulary:
            self.vocab_size = count
            self.duplicate_token = _first_duplicate(found)
        return tuple(text[8:][:_KEPT_TEXT_BYTES].decode("utf-8", "replace") for text in found) if is_kept else None

    def read_tensor(self) -> RawTensor:
        """One tensor's entry."""
        stream = self.stream
        name_bytes = stream.u64()
        if name_bytes >= _MAX_NAME_BYTES:
            raise _HeaderDamaged(f"has a tensor name of {name_bytes:,} bytes")
        name = stream.take(name_bytes).decode("utf-8", "replace")
        dim_count = stream.u32()
        if dim_count > _MAX_DIMS:
            raise _HeaderDamaged(f"gives the tensor {one_line(name)} {dim_count:,} dimensions")
        dims = struct.unpack(f"<{dim_count}Q", stream.take(8 * dim_count))
        return RawTensor(name, dims, stream.u32(), stream.u64())


def _parse(stream: _HeaderStream) -> RawHeader:
    stream.take(8)  # magic and version: seen by `foreign_problem`
    tensor_count, key_count = stream.u64(), stream.u64()
    if key_count > _MAX_KEYS:
        raise _HeaderDamaged(f"claims {key_count:,} keys")
    if tensor_count > _MAX_TENSORS:
        raise _HeaderDamaged(f"claims {tensor_count:,} tensors")
    parser = _Parser(stream)
    for _ in range(key_count):
        parser.read_key()
    tensors = tuple(parser.read_tensor() for _ in range(tensor_count))
    if len({tensor.name for tensor in tensors}) < tensor_count:
        raise _HeaderDamaged("names two tensors alike")
    raw = RawHeader(keys=parser.keys, tensors=tensors, data_start=0, file_bytes=stream.file_bytes)
    alignment = raw.alignment if raw.alignment > 0 else DEFAULT_ALIGNMENT
    return RawHeader(
        keys=parser.keys,
        tensors=tensors,
        data_start=stream.at + -stream.at % alignment,
        file_bytes=stream.file_bytes,
        vocab_size=parser.vocab_size,
        duplicate_token=parser.duplicate_token,
    )


def _first_duplicate(tokens: list[bytes]) -> str | None:
    """A text that occurs twice. Empty entries do not count: the engine numbers them."""
    empty = bytes(8)
    if len(set(tokens)) == len(tokens):
        return None
    seen: set[bytes] = set()
    for token in tokens:
        if token in seen and token != empty:
            return token[8:].decode("utf-8", "replace")
        seen.add(token)
    return None
