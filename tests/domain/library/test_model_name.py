"""What file names tell."""

from __future__ import annotations

import pytest

from kvarn.domain.library.model_name import base_words, is_model_name, split_name, stem_of


def test_a_split_name_gives_stem_number_and_total() -> None:
    name = split_name("Qwen3-235B-Q4_K_M-00002-of-00005.gguf")
    assert name == ("Qwen3-235B-Q4_K_M", 2, 5)
    assert name.part(1) == "Qwen3-235B-Q4_K_M-00001-of-00005.gguf"


@pytest.mark.parametrize(
    "name", ["model.gguf", "m-00000-of-00003.gguf", "m-00004-of-00003.gguf", "m-00001-of-00001.gguf", "m-1-of-3.gguf"]
)
def test_other_names_are_no_split(name: str) -> None:
    assert split_name(name) is None


@pytest.mark.parametrize(
    ("name", "is_model"),
    [
        ("a.gguf", True),
        ("UPPER.GGUF", True),
        (".hidden.gguf", True),
        ("a.gguf.part", True),
        ("new\nline.gguf", True),
        ("a.gguf.etag", False),
        ("a.bin", False),
        ("gguf", False),
    ],
)
def test_only_model_names_are_looked_at(name: str, is_model: bool) -> None:
    assert is_model_name(name) is is_model


def test_the_stem_leaves_suffix_and_part_number_out() -> None:
    assert stem_of("m-Q4_0-00001-of-00002.gguf") == "m-Q4_0"
    assert stem_of("x.GGUF") == "x"
    assert stem_of("a.gguf.part") == "a.gguf.part"
    assert stem_of(".gguf") == ".gguf"


def test_base_words_are_the_same_for_all_quantisations_of_one_model() -> None:
    names = [
        "gemma-3-4b-it-Q4_K_M.gguf",
        "gemma-3-4b-it-IQ2_XXS.gguf",
        "gemma-3-4b-it-UD-Q8_0.gguf",
        "gemma-3-4b-it-BF16.gguf",
    ]
    assert {base_words(name) for name in names} == {frozenset({"gemma", "3", "4b", "it"})}
    assert base_words("gemma-2-4b-it-Q4_K_M.gguf") != base_words(names[0])
    assert base_words("mmproj-model-f16.gguf") == frozenset()
