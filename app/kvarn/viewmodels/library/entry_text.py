"""A model entry in words, the same in the table, the picker and the detail pane."""

from __future__ import annotations

from kvarn.domain.library.model_entry import ModelEntry, ModelSource
from kvarn.domain.library.one_line import one_line
from kvarn.domain.quantity_text import bytes_text, count_text

_SOURCES = {
    ModelSource.STARTER: "comes with Kvarn",
    ModelSource.FOLDER: "your folder",
    ModelSource.LM_STUDIO: "LM Studio",
    ModelSource.HUGGING_FACE: "Hugging Face cache",
    ModelSource.OLLAMA: "Ollama",
    ModelSource.LLAMA_CPP: "llama.cpp cache",
}


def source_text(source: ModelSource) -> str:
    """Where a model was found."""
    return _SOURCES.get(source, source.value)


def architecture(entry: ModelEntry) -> str:
    """`llama`, or nothing when the header could not be read."""
    return entry.facts.architecture if entry.facts else ""


def quantisation(entry: ModelEntry) -> str:
    """The tensor type that takes the most bytes, e.g. `Q4_1`."""
    tensors = entry.facts.tensors if entry.facts else None
    types = tensors.bytes_by_type if tensors else {}
    return max(types, key=lambda name: types[name]) if types else ""


def box_text(entry: ModelEntry) -> str:
    """Title and weights in one line; the title alone where it names the weights."""
    title, weights = one_line(entry.title), quantisation(entry)
    return title if weights.casefold() in title.casefold() else f"{title} · {weights}"


def status_text(entry: ModelEntry) -> str:
    """`ready`, or why not."""
    if entry.problem is not None:
        return entry.problem.message
    return "ready" if entry.is_servable else "its header could not be read"


def summary_text(entry: ModelEntry) -> str:
    """One quiet line under a title: size, weights, trained context; or the reason it is greyed."""
    if not entry.is_servable:
        return status_text(entry)
    context = entry.facts.context_train if entry.facts else None
    parts = [quantisation(entry), bytes_text(entry.file_bytes), f"{count_text(context)} tokens" if context else ""]
    return " · ".join(part for part in parts if part)


def fact_lines(entry: ModelEntry) -> tuple[tuple[str, str], ...]:
    """(label, value) rows of the detail pane; a fact the file does not state is left out."""
    facts = entry.facts
    rows: list[tuple[str, str | None]] = [
        ("Status", status_text(entry)),
        ("File", one_line(str(entry.path), 600)),
        ("Parts", f"{len(entry.paths)} files" if len(entry.paths) > 1 else None),
        ("Size", bytes_text(entry.file_bytes)),
        ("Projector", f"{one_line(entry.mmproj.name)} ({bytes_text(entry.mmproj_bytes)})" if entry.mmproj else None),
        ("Found in", source_text(entry.source)),
    ]
    if facts is not None:
        rows += [("Architecture", facts.architecture), ("Name in file", one_line(facts.name) if facts.name else None)]
        rows += [(label, _hparam(entry, key)) for label, key in _HPARAMS]
        rows += [
            ("Vocabulary", count_text(facts.vocab_size) if facts.vocab_size else None),
            ("Tokenizer", facts.tokenizer_model),
            ("Chat template", "yes" if facts.chat_template else "none in the file"),
            ("Weights by type", _types(entry)),
        ]
        rows += [(label, _general(entry, key)) for label, key in _GENERAL]
    return tuple((label, value) for label, value in rows if value)


_HPARAMS = (
    ("Trained context", "context_length"),
    ("Layers", "block_count"),
    ("Embedding", "embedding_length"),
    ("Attention heads", "attention.head_count"),
    ("KV heads", "attention.head_count_kv"),
    ("Key head size", "attention.key_length"),
    ("Sliding window", "attention.sliding_window"),
    ("Experts", "expert_count"),
    ("Experts used", "expert_used_count"),
)
_GENERAL = (("Parameters", "size_label"), ("License", "license"), ("Author", "author"))


def _hparam(entry: ModelEntry, key: str) -> str | None:
    value = entry.facts.hparams.get(key) if entry.facts else None
    if isinstance(value, tuple):
        return "by layer: " + ", ".join(str(v) for v in value[:8]) + (", …" if len(value) > 8 else "")
    return count_text(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _general(entry: ModelEntry, key: str) -> str | None:
    value = entry.facts.general.get(key) if entry.facts else None
    return one_line(str(value)) if value not in (None, "") else None


def _types(entry: ModelEntry) -> str | None:
    tensors = entry.facts.tensors if entry.facts else None
    if tensors is None:
        return None
    ranked = sorted(tensors.bytes_by_type.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {bytes_text(size)}" for name, size in ranked)
