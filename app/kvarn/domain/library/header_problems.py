"""What speaks against serving a file whose header could be read. One sentence, the gravest first."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kvarn.domain.library.model_entry import ModelProblem
from kvarn.domain.library.one_line import one_line
from kvarn.domain.library.raw_header import RawHeader, RawTensor
from kvarn.domain.library.tensor_type import TENSOR_TYPES

MAX_LAYERS = 512
"""`LLAMA_MAX_LAYERS` of the pinned base, which ends the process beyond it."""
_MAX_COUNT = 1 << 20
"""Above any head count or width a model will have; catches 2^32 - 1 and the like."""
_MAX_ALIGNMENT = 1 << 20
_MAX_BYTES = 1 << 50
"""A pebibyte."""
_RECURRENT_KEYS = ("ssm.", "wkv.", "shortconv.", "token_shift_count")
"""Below the architecture: a model with one of these may well have no attention heads."""


def problem_in(raw: RawHeader) -> ModelProblem | None:
    """The first problem found, None when nothing speaks against the file."""
    for find in _CHECKS:
        if problem := find(raw):
            return problem
    return None


def _alignment(raw: RawHeader) -> ModelProblem | None:
    stated = raw.alignment
    if 0 < stated <= _MAX_ALIGNMENT and stated & (stated - 1) == 0:
        return None
    return ModelProblem("damaged", f"The header states an alignment of {stated:,} bytes, which no model has.")


def _layout(raw: RawHeader) -> ModelProblem | None:
    """The engine's own rule: tensors follow one another without gap, each padded to the alignment."""
    expected = 0
    for tensor in raw.tensors:
        kind, size = TENSOR_TYPES.get(tensor.type_id), tensor.size_bytes
        if kind is None or size is None:
            return None  # a later engine's type: only that engine can tell
        if tensor.dims and tensor.dims[0] % kind.block_values:
            return _damaged_tensor(tensor, "an impossible shape")
        if tensor.offset != expected:
            return _damaged_tensor(tensor, "its data in an impossible place")
        expected += size + -size % raw.alignment
        if expected > _MAX_BYTES:
            return _damaged_tensor(tensor, "an impossible size")
    return None


def _damaged_tensor(tensor: RawTensor, what: str) -> ModelProblem:
    name = one_line(tensor.name, 80)
    return ModelProblem("damaged", f"The header is damaged: tensor {name} has {what}. Download the file again.")


def _completeness(raw: RawHeader) -> ModelProblem | None:
    ends = [raw.data_start + tensor.offset + (tensor.size_bytes or 0) for tensor in raw.tensors]
    if not ends or (wanted := max(ends)) <= raw.file_bytes:
        return None
    return incomplete(raw.file_bytes, wanted)


def incomplete(present_bytes: int, wanted_bytes: int | None) -> ModelProblem:
    """A download that stopped early; `wanted_bytes` is None when not even the header is whole."""
    wanted = "an unknown number of" if wanted_bytes is None else f"{wanted_bytes:,}"
    where = ", it ends inside its header" if wanted_bytes is None else ""
    return ModelProblem(
        "incomplete", f"incomplete: {present_bytes:,} of {wanted} bytes{where}. Finish or repeat the download."
    )


def _purpose(raw: RawHeader) -> ModelProblem | None:
    kind = raw.text("general.type")
    if raw.text("general.architecture") == "clip" or kind == "mmproj":
        return ModelProblem(
            "projector", "This is the image or audio projector of another model and cannot be served alone."
        )
    if kind == "adapter":
        return ModelProblem("adapter", "This is a LoRA adapter for another model and cannot be served alone.")
    if kind == "imatrix":
        return ModelProblem("imatrix", "This is an importance matrix for quantising, not a model.")
    return None


def _architecture(raw: RawHeader) -> ModelProblem | None:
    if raw.text("general.architecture"):
        return None
    return ModelProblem("no-architecture", "The header does not name an architecture, so no engine can load the file.")


def _layers(raw: RawHeader) -> ModelProblem | None:
    layers = raw.integer(f"{raw.text('general.architecture')}.block_count")
    if layers is None:
        return _bad_number("does not say how many layers the model has")
    if not 1 <= layers <= MAX_LAYERS:
        return _bad_number(f"says {layers:,} layers; 1 to {MAX_LAYERS} are possible")
    return None


def _widths(raw: RawHeader) -> ModelProblem | None:
    prefix = f"{raw.text('general.architecture')}."
    is_recurrent = any(key.startswith(tuple(prefix + name for name in _RECURRENT_KEYS)) for key in raw.keys)
    zero_heads = {"attention.head_count", "attention.head_count_kv"} if is_recurrent else set()
    for name in ("embedding_length", "attention.head_count", "attention.head_count_kv"):
        for value in _numbers(raw, prefix + name):
            if not 0 <= value <= _MAX_COUNT or (value == 0 and name not in zero_heads):
                return _bad_number(f"says {name} = {value:,}")
    return None


def _numbers(raw: RawHeader, key: str) -> Iterator[int]:
    value = raw.keys.get(key)
    if isinstance(value, tuple):
        # Per-layer arrays have zeros for layers without attention; all zeros would be absurd.
        numbers = [number for number in value if isinstance(number, int)]
        yield from (number for number in numbers if number or not any(numbers))
    elif isinstance(value, int):
        yield value


def _bad_number(what: str) -> ModelProblem:
    return ModelProblem("bad-numbers", f"The header {what}, so the model cannot be loaded.")


def _weights(raw: RawHeader) -> ModelProblem | None:
    if raw.tensors or (raw.integer("split.count") or 0) > 1:
        return None  # a split model's first part may hold the keys alone
    return ModelProblem("no-weights", "The file holds a header but no weights.")


def _vocabulary(raw: RawHeader) -> ModelProblem | None:
    if raw.duplicate_token is None or raw.text("tokenizer.ggml.model") in {"none", "no_vocab"}:
        return None
    token = one_line(raw.duplicate_token, 40)
    return ModelProblem(
        "duplicate-token", f"The vocabulary holds the text “{token}” twice; the engine cannot load such a file."
    )


def _unless_later_part(check: Callable[[RawHeader], ModelProblem | None]) -> Callable[[RawHeader], ModelProblem | None]:
    """Later parts of a split model leave all keys to the first."""
    return lambda raw: None if raw.integer("split.no") else check(raw)


_CHECKS: tuple[Callable[[RawHeader], ModelProblem | None], ...] = (
    _alignment,
    _layout,
    _completeness,
    _purpose,
    _unless_later_part(_architecture),
    _unless_later_part(_layers),
    _unless_later_part(_widths),
    _unless_later_part(_weights),
    _vocabulary,
)
