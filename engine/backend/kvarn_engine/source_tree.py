"""The prepared source: a cache folder named by the hash of all that goes into it, so equal inputs share one build."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from . import bindings, locations, pin, series

# What we put over the sdist's own file of the same name.
_REPLACED = ("CMakeLists.txt", "pyproject.toml")
# A tree with its build folders takes about 0.5 GB: keep the last few, and none unused for a month.
_KEPT = 3
_KEPT_S = 30 * 24 * 3600
_READY = "ready"


@dataclass(frozen=True)
class SourceTree:
    """`folder` holds the source and every build folder; `source` is where the build runs."""

    folder: Path
    source: Path


def prepare(here: pin.Pin, archive: Path, patches: list[series.Patch]) -> SourceTree:
    """The tree for these inputs, made now unless an earlier build left it."""
    folder = locations.cache() / "trees" / content_hash(here, patches)[:16]
    tree = SourceTree(folder, folder / here.folder)
    if not (folder / _READY).exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        _make(tree, here, archive, patches)
    os.utime(folder / _READY)
    return tree


def content_hash(here: pin.Pin, patches: list[series.Patch]) -> str:
    """Hash of the sdist's hash, the overlay, the patches in order, our build files, and what edits the bindings."""
    digest = hashlib.sha256(here.sha256.encode())
    parts = [(series.OVERLAY / path, path.as_posix()) for path in series.overlay_files()]
    parts += [(locations.ENGINE / name, name) for name in _REPLACED]
    parts.append((Path(bindings.__file__), "bindings.py"))
    for path, name in parts:
        digest.update(f"\0{name}\0".encode() + path.read_bytes())
    for patch in patches:
        digest.update(f"\0{patch.name}\0{patch.diff}".encode())
    return digest.hexdigest()


def _make(tree: SourceTree, here: pin.Pin, archive: Path, patches: list[series.Patch]) -> None:
    # Built beside its place and moved there whole; `ready` is written last for the case of a dying machine.
    with tempfile.TemporaryDirectory(dir=tree.folder.parent) as work:
        pin.unpack(here, archive, Path(work))
        source = Path(work, here.folder)
        series.add_overlay(source / here.llama_cpp)
        for patch in patches:
            series.apply_patch(source / here.llama_cpp, patch)
        bindings.name_our_types(source / "llama_cpp" / "llama_cpp.py", source / here.llama_cpp / "ggml/include/ggml.h")
        for name in _REPLACED:
            shutil.copyfile(locations.ENGINE / name, source / name)
        tree.folder.mkdir()
        source.replace(tree.source)
    (tree.folder / _READY).touch()


def prune(keep: SourceTree) -> None:
    """Remove trees that are neither among the last few used nor recent."""
    marks = [mark for mark in keep.folder.parent.glob(f"*/{_READY}") if mark.parent != keep.folder]
    newest_first = sorted(marks, key=lambda mark: mark.stat().st_mtime, reverse=True)
    for place, mark in enumerate(newest_first, start=1):
        if place >= _KEPT or time.time() - mark.stat().st_mtime > _KEPT_S:
            shutil.rmtree(mark.parent, ignore_errors=True)
