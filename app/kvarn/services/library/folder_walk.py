"""Find model files below a folder, wherever links lead, without ever opening one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from kvarn.domain.library.model_name import is_model_name

_MAX_DEPTH = 16


def walk_models(
    folder: Path, refuse: Callable[[Path, OSError], None], stopped: Callable[[], bool] = lambda: False
) -> Iterator[Path]:
    """Paths of files with a model's name, sorted within each folder; links to folders are followed once.

    Hidden folders below `folder` are left out. A folder that cannot be read is handed to `refuse`.
    """
    yield from _walk(folder, refuse, stopped, set(), 0)


def _walk(
    folder: Path,
    refuse: Callable[[Path, OSError], None],
    stopped: Callable[[], bool],
    seen: set[tuple[int, int]],
    depth: int,
) -> Iterator[Path]:
    try:
        # Device and inode end link loops; a depth limit ends what even these cannot tell (bind mounts).
        here = os.stat(folder)
        if (here.st_dev, here.st_ino) in seen or depth > _MAX_DEPTH:
            return
        seen.add((here.st_dev, here.st_ino))
        with os.scandir(folder) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
    except OSError as error:
        refuse(folder, error)
        return
    for entry in entries:
        if stopped():
            return
        if _is_folder(entry):
            if not entry.name.startswith("."):
                yield from _walk(folder / entry.name, refuse, stopped, seen, depth + 1)
        elif is_model_name(entry.name):
            yield folder / entry.name


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False
