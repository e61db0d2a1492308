"""From raw header values to facts: nothing is interpreted, absurd lengths are left out."""

from __future__ import annotations

import re

from kvarn.domain.library.header_problems import problem_in
from kvarn.domain.library.header_reading import HeaderReading, ShardTensors, sum_tensors
from kvarn.domain.library.model_facts import HParam, ModelFacts, TensorFacts
from kvarn.domain.library.raw_header import RawHeader, RawTensor
from kvarn.domain.library.tensor_type import TENSOR_TYPES

_MAX_KEYS = 1024
"""More keys of one kind than any real model has tenfold."""
_LAYER = re.compile(r"blk\.(\d{1,6})\.")


def read_header(raw: RawHeader) -> HeaderReading:
    """Facts and problem of a header that could be parsed."""
    problem = problem_in(raw)
    # Sizes of a damaged header are worth nothing and may not even fit 64 bits.
    tensors = None if problem and problem.code == "damaged" else tensors_of(raw.tensors)
    split_count = raw.integer("split.count")
    is_split = split_count is not None and split_count > 1
    return HeaderReading(
        file_bytes=raw.file_bytes,
        facts=_facts_of(raw, tensors),
        problem=problem,
        tensors=tensors,
        split_number=raw.integer("split.no") if is_split else None,
        split_count=split_count if is_split else None,
        is_projector=raw.text("general.architecture") == "clip",
    )


def _facts_of(raw: RawHeader, tensors: ShardTensors | None) -> ModelFacts | None:
    architecture = raw.text("general.architecture")
    if not architecture:
        return None
    return ModelFacts(
        architecture=architecture,
        name=raw.text("general.name"),
        general={
            key: value
            for key, value in _below(raw, "general.").items()
            if key not in {"architecture", "name"} and not isinstance(value, tuple)
        },
        hparams=_below(raw, f"{architecture}."),
        vocab_size=raw.vocab_size,
        tokenizer_model=raw.text("tokenizer.ggml.model"),
        chat_template=bool(raw.text("tokenizer.chat_template")),
        tensors=sum_tensors([tensors]),
    )


def _below(raw: RawHeader, prefix: str) -> dict[str, HParam]:
    found = ((key.removeprefix(prefix), value) for key, value in raw.keys.items() if key.startswith(prefix))
    return dict(pair for _, pair in zip(range(_MAX_KEYS), found, strict=False))


def tensors_of(tensors: tuple[RawTensor, ...]) -> ShardTensors | None:
    """Sizes of one file's tensors; None when a type is unknown."""
    sizes = [tensor.size_bytes for tensor in tensors]
    known = [(tensor, size) for tensor, size in zip(tensors, sizes, strict=True) if size is not None]
    if len(known) < len(tensors):
        return None
    by_type: dict[str, int] = {}
    by_layer: dict[int, int] = {}
    nextn: set[int] = set()
    for tensor, size in known:
        name = TENSOR_TYPES[tensor.type_id].name
        by_type[name] = by_type.get(name, 0) + size
        if layer := _LAYER.match(tensor.name):
            by_layer[int(layer[1])] = by_layer.get(int(layer[1]), 0) + size
            if ".nextn." in tensor.name:
                nextn.add(int(layer[1]))
    facts = TensorFacts(
        count=len(known),
        total_bytes=sum(by_type.values()),
        token_embd_bytes=sum(size for tensor, size in known if tensor.name == "token_embd.weight"),
        output_bytes=sum(size for tensor, size in known if tensor.name == "output.weight"),
        routed_expert_bytes=sum(size for tensor, size in known if "_exps" in tensor.name),
        bytes_by_type=by_type,
        elements_total=sum(tensor.elements for tensor, _ in known),
    )
    return ShardTensors(facts=facts, layer_bytes=by_layer, nextn_layers=tuple(sorted(nextn)))
