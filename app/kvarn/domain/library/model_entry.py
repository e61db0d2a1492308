"""A model as the library lists it: its files joined, its header facts, or the reason it cannot be served."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

import msgspec

from kvarn.domain.library.model_facts import ModelFacts


class ModelSource(StrEnum):
    """Where a model was found."""

    STARTER = "starter"
    FOLDER = "folder"
    LM_STUDIO = "lm-studio"
    HUGGING_FACE = "hugging-face"
    OLLAMA = "ollama"
    LLAMA_CPP = "llama.cpp"


class ModelProblem(msgspec.Struct, frozen=True):
    """Why a file cannot be served. `message` is one plain sentence; `code` is for scripts."""

    code: str
    message: str


class ModelEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One model: first shard first, companions joined. Paths are absolute."""

    id: str
    """Unique in one scan; what a user types as MODEL."""
    title: str
    """One line, control characters made visible."""
    paths: tuple[Path, ...]
    source: ModelSource
    file_bytes: int
    facts: ModelFacts | None = None
    mmproj: Path | None = None
    mmproj_bytes: int = 0
    problem: ModelProblem | None = None

    @property
    def path(self) -> Path:
        """The file given to the engine: the first shard."""
        return self.paths[0]

    @property
    def is_servable(self) -> bool:
        """True when nothing speaks against pressing Launch."""
        return self.problem is None and self.facts is not None
