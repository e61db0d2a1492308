"""Write small GGUF files, right or deliberately wrong, for tests that must not need a real model.

    GgufMaker("llama").hparam("block_count", 2).tensor("token_embd.weight", (64, 32)).write(path)
    GgufMaker.llama(layers=30, heads=9, kv_heads=3).write(path)        # header only, no weights
    GgufMaker.llama().with_weights().write(path)                       # zeros the engine really loads

`dump()` gives the bytes, `truncated(n)` the first n of them, `write_shards(folder, stem, n)` a split model.
Sizes of tensor types come from the `gguf` package, so that they are independent of the product's own table.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

# Numbers of the GGUF specification.
U8, I8, U16, I16, U32, I32, F32, BOOL, STR, ARRAY, U64, I64, F64 = range(13)
_PACK = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "?", U64: "Q", I64: "q", F64: "d"}

BYTE_VOCABULARY: tuple[str, ...] = ("<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "a", "b")
"""The smallest vocabulary the engine's SentencePiece tokenizer accepts."""


class GgufMaker:
    """A GGUF file in the making; every method returns the maker, values may be as absurd as a test needs."""

    def __init__(self, arch: str | None = None, *, version: int = 3, alignment: int = 32, big_endian: bool = False):
        self.arch = arch
        self.alignment = alignment
        self.tensor_count: int | None = None
        """Set to lie about the number of tensors."""
        self.key_count: int | None = None
        """Set to lie about the number of keys."""
        self._order = ">" if big_endian else "<"
        self._version = version
        self._keys: list[bytes] = []
        self._tensors: list[bytes] = []
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._shape = {"embd": 64, "layers": 1, "heads": 2, "kv_heads": 1, "ff": 64, "vocab": len(BYTE_VOCABULARY)}
        if arch is not None:
            self.key("general.architecture", arch)

    @classmethod
    def llama(
        cls,
        *,
        name: str | None = "tiny",
        layers: int = 1,
        embd: int = 64,
        heads: int = 2,
        kv_heads: int | None = 1,
        ff: int = 64,
        context: int = 256,
        vocab: Sequence[str | bytes] = BYTE_VOCABULARY,
    ) -> GgufMaker:
        """Every key the engine wants of a llama model; no tensors yet (see `with_weights`)."""
        made = cls("llama")
        if name is not None:
            made.key("general.name", name)
        made.hparam("context_length", context).hparam("embedding_length", embd).hparam("block_count", layers)
        made.hparam("feed_forward_length", ff).hparam("attention.head_count", heads)
        if kv_heads is not None:
            made.hparam("attention.head_count_kv", kv_heads)
        made.hparam("attention.layer_norm_rms_epsilon", 1e-5)
        made._shape = dict(embd=embd, layers=layers, heads=heads, kv_heads=kv_heads or heads, ff=ff, vocab=len(vocab))
        return made.vocabulary(vocab)

    def key(self, name: str, value: Any, kind: int | None = None) -> GgufMaker:
        """Add a key. Lists and tuples become arrays; without `kind`, ints are U32, floats F32."""
        if isinstance(value, (list, tuple)):
            return self.array(name, value, kind)
        kind = _kind_of(value) if kind is None else kind
        self._keys.append(self._text(name) + self._number(U32, kind) + self._value(kind, value))
        return self

    def array(
        self, name: str, values: Sequence[Any], kind: int | None = None, *, count: int | None = None
    ) -> GgufMaker:
        """Add an array; `count` lies about its length."""
        kind = (_kind_of(values[0]) if values else U32) if kind is None else kind
        head = self._number(U32, ARRAY) + self._number(U32, kind)
        head += self._number(U64, len(values) if count is None else count)
        self._keys.append(self._text(name) + head + b"".join(self._value(kind, value) for value in values))
        return self

    def hparam(self, name: str, value: Any, kind: int | None = None) -> GgufMaker:
        """Add a key below the architecture: `hparam("block_count", 2)` writes `llama.block_count`."""
        return self.key(f"{self.arch}.{name}", value, kind)

    def vocabulary(self, tokens: Sequence[str | bytes], model: str = "llama") -> GgufMaker:
        """Tokenizer keys for these tokens; the first three are unknown, begin and end."""
        self.key("tokenizer.ggml.model", model).array("tokenizer.ggml.tokens", tokens, STR)
        self.array("tokenizer.ggml.scores", [0.0] * len(tokens), F32)
        self.array("tokenizer.ggml.token_type", [2, 3, 3] + [1] * (len(tokens) - 3), I32)
        return self.key("tokenizer.ggml.bos_token_id", 1).key("tokenizer.ggml.eos_token_id", 2)

    def split(self, number: int, count: int, tensors: int) -> GgufMaker:
        """Keys of one part of a split model; `number` counts from 0."""
        return self.key("split.no", number, U16).key("split.count", count, U16).key("split.tensors.count", tensors, I32)

    def tensor(
        self,
        name: str,
        dims: Sequence[int],
        type: str | int = "F32",
        *,
        offset: int | None = None,
        data: bool = True,
    ) -> GgufMaker:
        """Add a tensor of zeros; `data=False` states it without storing it (a sparse or cut file)."""
        number = GGMLQuantizationType[type].value if isinstance(type, str) else type
        size = _tensor_bytes(dims, number) if data else 0
        info = self._text(name) + self._number(U32, len(dims)) + b"".join(self._number(U64, dim) for dim in dims)
        info += self._number(U32, number) + self._number(U64, self._data_bytes if offset is None else offset)
        self._tensors.append(info)
        self._data.append(bytes(size + -size % max(self.alignment, 1)))
        self._data_bytes += len(self._data[-1])
        return self

    def with_weights(self) -> GgufMaker:
        """All-zero weights in the shapes of `llama(...)`: about 200 KB the stock engine loads."""
        s = self._shape
        kv = s["embd"] // s["heads"] * s["kv_heads"]
        self.tensor("token_embd.weight", (s["embd"], s["vocab"])).tensor("output_norm.weight", (s["embd"],))
        for layer in range(s["layers"]):
            for part, dims in {
                "attn_norm": (s["embd"],),
                "attn_q": (s["embd"], s["embd"]),
                "attn_k": (s["embd"], kv),
                "attn_v": (s["embd"], kv),
                "attn_output": (s["embd"], s["embd"]),
                "ffn_norm": (s["embd"],),
                "ffn_gate": (s["embd"], s["ff"]),
                "ffn_up": (s["embd"], s["ff"]),
                "ffn_down": (s["ff"], s["embd"]),
            }.items():
                self.tensor(f"blk.{layer}.{part}.weight", dims)
        return self

    def dump(self) -> bytes:
        """The whole file."""
        tensors = len(self._tensors) if self.tensor_count is None else self.tensor_count
        keys = len(self._keys) if self.key_count is None else self.key_count
        head = b"GGUF" + self._number(U32, self._version) + self._number(U64, tensors) + self._number(U64, keys)
        head += b"".join(self._keys) + b"".join(self._tensors)
        return head + bytes(-len(head) % max(self.alignment, 1)) + b"".join(self._data)

    def truncated(self, size: int) -> bytes:
        """The first `size` bytes; negative counts from the end."""
        return self.dump()[:size]

    def write(self, path: Path) -> Path:
        """Write the file, making its folder; returns `path`."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.dump())
        return path

    def _text(self, text: str | bytes) -> bytes:
        raw = text if isinstance(text, bytes) else text.encode()
        return self._number(U64, len(raw)) + raw

    def _number(self, kind: int, value: Any) -> bytes:
        return struct.pack(self._order + _PACK[kind], value)

    def _value(self, kind: int, value: Any) -> bytes:
        return self._text(value) if kind == STR else self._number(kind, value)


def write_shards(folder: Path, stem: str, count: int = 3, **llama: Any) -> list[Path]:
    """A split llama model as `llama-gguf-split` names it: keys in the first part, one tensor in each."""
    paths = []
    for number in range(count):
        maker = GgufMaker.llama(**llama) if number == 0 else GgufMaker()
        maker.split(number, count, tensors=count).tensor(f"blk.{number}.attn_q.weight", (64, 64))
        paths.append(maker.write(folder / f"{stem}-{number + 1:05}-of-{count:05}.gguf"))
    return paths


def _kind_of(value: Any) -> int:
    kinds = {bool: BOOL, int: U32, float: F32, str: STR, bytes: STR}
    return kinds[type(value)]


def _tensor_bytes(dims: Sequence[int], number: int) -> int:
    block, size = GGML_QUANT_SIZES[GGMLQuantizationType(number)]
    elements = 1
    for dim in dims:
        elements *= dim
    return elements // block * size
