"""What reading one file's header gave: facts, a problem, or both."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kvarn.domain.library.model_entry import ModelProblem
from kvarn.domain.library.model_facts import ModelFacts, TensorFacts


class ShardTensors(msgspec.Struct, frozen=True, kw_only=True):
    """Tensor sizes of one file, in a form that can be added up over the parts of a split model."""

    facts: TensorFacts
    """With `nextn_bytes` of this file alone; `sum_tensors` knows the layers of all files."""
    layer_bytes: dict[int, int]
    """Bytes by layer number."""
    nextn_layers: tuple[int, ...]
    """Layers that hold a `nextn` tensor in this file."""


class HeaderReading(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome for one file. No facts and no problem together: a later part of a split model."""

    file_bytes: int
    facts: ModelFacts | None = None
    problem: ModelProblem | None = None
    tensors: ShardTensors | None = None
    split_number: int | None = None
    """`split.no`, counted from 0; None when the file is not part of a split."""
    split_count: int | None = None
    is_projector: bool = False
    """An mmproj file; `problem` then says that it cannot be served alone."""


def refused(code: str, message: str, file_bytes: int = 0) -> HeaderReading:
    """A reading that has nothing but a problem."""
    return HeaderReading(file_bytes=file_bytes, problem=ModelProblem(code, message))


def sum_tensors(parts: Sequence[ShardTensors | None]) -> TensorFacts | None:
    """Tensor sizes over all parts of a model; None when a part's are unknown or there are no tensors at all."""
    known = [part for part in parts if part]
    if len(known) < len(parts) or not any(part.facts.count for part in known):
        return None
    return _sum(known)


def _sum(parts: list[ShardTensors]) -> TensorFacts:
    by_type: dict[str, int] = {}
    for part in parts:
        for name, size in part.facts.bytes_by_type.items():
            by_type[name] = by_type.get(name, 0) + size
    nextn = {layer for part in parts for layer in part.nextn_layers}
    every = [part.facts for part in parts]
    return TensorFacts(
        count=sum(facts.count for facts in every),
        total_bytes=sum(facts.total_bytes for facts in every),
        token_embd_bytes=sum(facts.token_embd_bytes for facts in every),
        output_bytes=sum(facts.output_bytes for facts in every),
        routed_expert_bytes=sum(facts.routed_expert_bytes for facts in every),
        bytes_by_type=by_type,
        elements_total=sum(facts.elements_total for facts in every),
        nextn_bytes=sum(size for part in parts for layer, size in part.layer_bytes.items() if layer in nextn),
    )
