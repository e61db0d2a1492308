"""From single files to models: parts of a split joined, projectors attached, every model named once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from kvarn.domain.library.header_problems import incomplete
from kvarn.domain.library.header_reading import HeaderReading, sum_tensors
from kvarn.domain.library.model_entry import ModelEntry, ModelProblem, ModelSource
from kvarn.domain.library.model_name import split_name, stem_of
from kvarn.domain.library.one_line import one_line
from kvarn.domain.library.projector_match import Projector, fitting_projector, is_one_model
from kvarn.domain.library.split_problems import split_problem
from kvarn.domain.library.unique_ids import unique_ids


class FoundFile(msgspec.Struct, frozen=True, kw_only=True):
    """A model file and where it came from, before its header is read."""

    path: Path
    source: ModelSource
    origin: str = ""
    """What tells files of one name apart: `publisher/repository` or the folder's name."""
    label: str = ""
    """The model's name where the file's own says nothing (Ollama); such a file stands alone."""
    projector: Path | None = None
    """A companion that the source states."""
    projector_bytes: int = 0
    wanted_bytes: int = 0
    """Size that the source states, 0 when it does not."""


class ReadFile(msgspec.Struct, frozen=True):
    """A found file and what its header says."""

    found: FoundFile
    reading: HeaderReading

    @property
    def name(self) -> str:
        """The file's own name."""
        return self.found.path.name


def join_files(files: Iterable[ReadFile]) -> tuple[ModelEntry, ...]:
    """Every model among the files, in the order of their first parts, with unique ids."""
    every = list(files)
    folders: dict[Path, list[ReadFile]] = {}
    for file in every:
        if not file.found.label:
            folders.setdefault(file.found.path.parent, []).append(file)
    entries = [_single_entry(file) for file in every if file.found.label]
    for folder, inside in folders.items():
        entries += _models_of_folder(inside, folders.get(folder.parent, []))
    attached = {entry.mmproj for entry in entries}
    loose = (file for inside in folders.values() for file in inside if file.reading.is_projector)
    entries += [_single_entry(file) for file in loose if file.found.path not in attached]
    found_by_path = {file.found.path: (place, file.found) for place, file in enumerate(every)}
    entries.sort(key=lambda entry: found_by_path[entry.path][0])
    origins = [found_by_path[entry.path][1].origin for entry in entries]
    ids = unique_ids([entry.id for entry in entries], origins, [entry.source for entry in entries])
    return tuple(msgspec.structs.replace(entry, id=id) for entry, id in zip(entries, ids, strict=True))


def _models_of_folder(files: Sequence[ReadFile], above: Sequence[ReadFile]) -> list[ModelEntry]:
    models = [file for file in files if not file.reading.is_projector]
    near = [file for file in files if file.reading.is_projector]
    if not near and files[0].found.source is ModelSource.HUGGING_FACE:
        # A repository may sort its quantisations into folders and leave the projector at the top.
        near = [file for file in above if file.reading.is_projector]
    projectors = [Projector(file.found.path, file.reading.file_bytes, file.reading.facts) for file in near]
    entries = [_entry_of(parts) for parts in _groups(models)]
    if not projectors:
        return entries
    is_only_model = is_one_model(file.name for file in models)
    return [_with_projector(entry, projectors, is_only_model=is_only_model) for entry in entries]


def _groups(files: Sequence[ReadFile]) -> list[list[ReadFile]]:
    """The parts of one split model together, by number; every other file alone."""
    groups: dict[tuple[str, int], list[ReadFile]] = {}
    for file in files:
        split = split_name(file.name)
        is_part = split and not (file.reading.facts and file.reading.split_count is None)
        key = (split.stem, split.total) if split and is_part else (file.name, 0)
        groups.setdefault(key, []).append(file)
    return [sorted(group, key=lambda file: file.name) for group in groups.values()]


def _entry_of(parts: Sequence[ReadFile]) -> ModelEntry:
    """One model from the present parts of one group."""
    first = parts[0]
    readings = [part.reading for part in parts]
    problem = split_problem([(part.name, part.reading) for part in parts])
    entry = msgspec.structs.replace(
        _single_entry(first),
        paths=tuple(part.found.path for part in parts),
        file_bytes=sum(reading.file_bytes for reading in readings),
        problem=problem,
    )
    if len(parts) == 1 or entry.facts is None:
        return entry
    tensors = sum_tensors([reading.tensors for reading in readings])
    return msgspec.structs.replace(entry, facts=msgspec.structs.replace(entry.facts, tensors=tensors))


def _single_entry(file: ReadFile) -> ModelEntry:
    found = file.found
    title = one_line(found.label or stem_of(file.name))
    return ModelEntry(
        id=title.lstrip("-") or title,
        title=title,
        paths=(found.path,),
        source=found.source,
        file_bytes=file.reading.file_bytes,
        facts=file.reading.facts,
        mmproj=found.projector,
        mmproj_bytes=found.projector_bytes,
        problem=file.reading.problem or _short_of(file),
    )


def _short_of(file: ReadFile) -> ModelProblem | None:
    present, wanted = file.reading.file_bytes, file.found.wanted_bytes
    return incomplete(present, wanted) if present < wanted else None


def _with_projector(entry: ModelEntry, projectors: Sequence[Projector], *, is_only_model: bool) -> ModelEntry:
    if entry.facts is None:
        return entry
    projector = fitting_projector(entry.path.name, entry.facts, projectors, is_only_model=is_only_model)
    if projector is None:
        return entry
    return msgspec.structs.replace(entry, mmproj=projector.path, mmproj_bytes=projector.file_bytes)
