"""Our table of tensor sizes against the kept one."""

from __future__ import annotations

from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

from kvarn.domain.library.tensor_type import TENSOR_TYPES

# The package still counts Q8_1 with 32-bit scales; ggml's own block has 36 bytes (never stored in files).
_WRONG_IN_PACKAGE = {GGMLQuantizationType.Q8_1}


def test_every_type_the_gguf_package_knows_has_the_same_size_here() -> None:
    package = {kind: sizes for kind, sizes in GGML_QUANT_SIZES.items() if kind not in _WRONG_IN_PACKAGE}
    ours = {
        GGMLQuantizationType(number): tuple(kind[1:])
        for number, kind in TENSOR_TYPES.items()
        if number in set(GGMLQuantizationType)
    }
    assert {kind: ours[kind] for kind in package} == package


def test_names_are_the_packages_names() -> None:
    named = {number: kind.name for number, kind in TENSOR_TYPES.items()}
    assert all(named[kind.value] == kind.name for kind in GGMLQuantizationType)
