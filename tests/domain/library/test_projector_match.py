"""Which projector goes with which model."""

from __future__ import annotations

from pathlib import Path

from kvarn.domain.library.model_facts import ModelFacts
from kvarn.domain.library.projector_match import Projector, fitting_projector, is_one_model


def facts(architecture: str, **hparams: int) -> ModelFacts:
    named = {key.replace("__", "."): value for key, value in hparams.items()}
    return ModelFacts(
        architecture=architecture,
        name=None,
        general={},
        hparams=named,
        vocab_size=None,
        tokenizer_model=None,
        chat_template=False,
        tensors=None,
    )


MODEL = facts("gemma3", embedding_length=2560)


def projector(name: str, width: int | None = 2560) -> Projector:
    return Projector(Path("/m") / name, 1, facts("clip", **({"vision__projection_dim": width} if width else {})))


def fit(model: str, *projectors: Projector, beside: tuple[str, ...] = ()) -> str | None:
    found = fitting_projector(model, MODEL, projectors, is_only_model=is_one_model([model, *beside]))
    return found.path.name if found else None


def test_a_generic_projector_belongs_to_every_quantisation_of_the_folders_one_model() -> None:
    assert (
        fit("gemma-3-4b-it-Q4_K_M.gguf", projector("mmproj-F16.gguf"), beside=("gemma-3-4b-it-Q8_0.gguf",))
        == "mmproj-F16.gguf"
    )


def test_a_generic_projector_among_several_models_belongs_to_none() -> None:
    assert fit("gemma-3-4b-it-Q4_K_M.gguf", projector("mmproj-F16.gguf"), beside=("phi-4.gguf",)) is None


def test_a_projector_named_after_its_model_is_preferred() -> None:
    named, generic = projector("mmproj-gemma-3-4b-it-f16.gguf"), projector("mmproj-model-f16.gguf")
    assert fit("gemma-3-4b-it-Q4_K_M.gguf", generic, named) == named.path.name


def test_a_projector_named_after_another_model_is_not_taken() -> None:
    assert fit("gemma-3-4b-it-Q4_K_M.gguf", projector("mmproj-gemma-3-12b-it-f16.gguf", None)) is None


def test_a_projector_of_another_width_is_not_taken() -> None:
    assert fit("gemma-3-4b-it-Q4_K_M.gguf", projector("mmproj-F16.gguf", 3840)) is None


def test_a_projector_that_does_not_state_its_width_is_taken_by_name() -> None:
    assert fit("gemma-3-4b-it-Q4_K_M.gguf", projector("mmproj-F16.gguf", None)) == "mmproj-F16.gguf"
