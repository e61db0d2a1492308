"""What a GGUF header says about a model, kept close to the file; interpretation happens in `launch`."""

from __future__ import annotations

import msgspec

Scalar = int | float | bool | str
HParam = Scalar | tuple[Scalar, ...]


class TensorFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes of a model's tensors in bytes, over all its shards."""

    count: int
    total_bytes: int
    token_embd_bytes: int
    output_bytes: int
    """The output head alone; 0 when the head is tied to the token embedding."""
    routed_expert_bytes: int
    """Tensors named `*_exps*`: only a part of them is read for each token."""
    bytes_by_type: dict[str, int]
    """Tensor bytes by ggml type name, e.g. `{"Q4_1": 91234304, "F32": 140544}`."""
    elements_total: int = 0
    nextn_bytes: int = 0
    """Tensors of multi-token-prediction blocks (`*.nextn.*` and their layer)."""


class ModelFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One GGUF header. `hparams` keys have the architecture prefix removed (`attention.head_count`)."""

    architecture: str
    name: str | None
    """`general.name` as stored, possibly empty of sense; show it as plain text on one line."""
    general: dict[str, Scalar]
    """Other scalar `general.*` keys: size_label, file_type, license, type, …"""
    hparams: dict[str, HParam]
    """Scalars and arrays of at most 4096 entries; longer arrays are left out."""
    vocab_size: int | None
    tokenizer_model: str | None
    chat_template: bool
    tensors: TensorFacts | None

    @property
    def context_train(self) -> int | None:
        """Trained context in tokens, None when absent or not a sensible positive number."""
        value = self.hparams.get("context_length")
        return value if isinstance(value, int) and 0 < value <= 1 << 27 else None

    @property
    def is_projector(self) -> bool:
        """True for an mmproj file, which accompanies a model and cannot be served alone."""
        return self.architecture == "clip"
