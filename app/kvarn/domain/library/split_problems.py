"""What speaks against a model in several files: a part missing, renamed or broken."""

from __future__ import annotations

from collections.abc import Sequence

from kvarn.domain.library.header_reading import HeaderReading
from kvarn.domain.library.model_entry import ModelProblem
from kvarn.domain.library.model_name import SplitName, split_name
from kvarn.domain.library.one_line import one_line

Part = tuple[str, HeaderReading]
"""File name and reading."""


def split_problem(parts: Sequence[Part]) -> ModelProblem | None:
    """The problem of one group of parts, or of a single file; None when it can be served."""
    name, reading = parts[0]
    split = split_name(name)
    if split is None or (reading.facts and reading.split_count is None):
        return reading.problem or _renamed_single(name, reading)
    return _missing(split, parts) or _first_bad_part(parts)


def _missing(split: SplitName, parts: Sequence[Part]) -> ModelProblem | None:
    present = {name.number for name, _ in ((split_name(name), reading) for name, reading in parts) if name}
    missing = [split.part(number) for number in range(1, split.total + 1) if number not in present]
    if not missing:
        return None
    named = ", ".join(one_line(name) for name in missing[:3])
    more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
    message = f"{len(present)} of {split.total} parts present; missing {named}{more}."
    return ModelProblem("split-incomplete", message)


def _first_bad_part(parts: Sequence[Part]) -> ModelProblem | None:
    for name, reading in parts:
        if problem := reading.problem or _misnamed_part(name, reading):
            if len(parts) == 1 or name == parts[0][0]:
                return problem
            return ModelProblem(problem.code, f"Part {one_line(name)}: {problem.message}")
    return None


def _misnamed_part(name: str, reading: HeaderReading) -> ModelProblem | None:
    split = split_name(name)
    if split is None or (reading.split_number, reading.split_count) == (split.number - 1, split.total):
        return None
    if reading.split_number is None or reading.split_count is None:
        return ModelProblem("split-renamed", f"{one_line(name)} is not a part of a split model, only named like one.")
    really = f"part {reading.split_number + 1} of {reading.split_count}"
    return ModelProblem("split-renamed", f"{one_line(name)} is really {really} of a split model; rename it back.")


def _renamed_single(name: str, reading: HeaderReading) -> ModelProblem | None:
    if reading.split_number is None or reading.split_count is None:
        return None
    wanted = SplitName("NAME", reading.split_number + 1, reading.split_count)
    return ModelProblem(
        "split-renamed",
        f"This is part {wanted.number} of {wanted.total} of a split model under a changed name, or parts joined byte "
        f"by byte. The engine finds parts by name: call it {wanted.part(wanted.number)} beside the others, "
        "or merge the original parts with llama-gguf-split --merge.",
    )
