"""Which mmproj file belongs to which model of the same folder."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from kvarn.domain.library.model_facts import ModelFacts
from kvarn.domain.library.model_name import base_words


class Projector(NamedTuple):
    """An mmproj file near a model."""

    path: Path
    file_bytes: int
    facts: ModelFacts | None


def fitting_projector(
    model_name: str, model: ModelFacts, projectors: Iterable[Projector], *, is_only_model: bool
) -> Projector | None:
    """The projector that belongs to the model; None when none does, or it cannot be told.

    It must produce embeddings of the model's width. A projector named after a model belongs to that
    model; one with a general name (`mmproj-F16.gguf`) only goes with a folder's only model.
    """
    words = base_words(model_name)
    fitting = []
    for projector in projectors:
        named_after = base_words(projector.path.name)
        fits = named_after <= words and (named_after or is_only_model)
        if fits and _widths_agree(projector.facts, model):
            fitting.append((len(named_after), projector))
    return max(fitting, key=lambda pair: pair[0])[1] if fitting else None


def is_one_model(file_names: Iterable[str]) -> bool:
    """True when the names are quantisations of one model."""
    return len({base_words(name) for name in file_names}) == 1


def _widths_agree(projector: ModelFacts | None, model: ModelFacts) -> bool:
    """True unless both state a width and these differ."""
    width = model.hparams.get("embedding_length")
    keys = ("vision.projection_dim", "audio.projection_dim")
    stated = [projector.hparams[key] for key in keys if key in projector.hparams] if projector else []
    return not stated or width is None or width in stated
