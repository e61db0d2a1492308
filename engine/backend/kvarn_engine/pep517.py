"""PEP 517 backend: the pinned llama-cpp-python, patched, built by scikit-build-core.

Metadata is static in engine/pyproject.toml, so locking never downloads, unpacks or compiles anything.
The order of a build: lock, fetch, prepare the tree, decide on CUDA, hand over to scikit-build-core.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scikit_build_core import build as skbuild

from . import cuda, locations, log, pin, series, source_tree
from .build_facts import write_facts

__all__ = ["build_sdist", "build_wheel", "get_requires_for_build_wheel", "prepare_metadata_for_build_wheel"]


class UnsupportedOperation(Exception):
    """PEP 517's name and way to say that a hook has nothing to offer."""


def get_requires_for_build_wheel(config_settings: dict[str, Any] | None = None) -> list[str]:
    """Nothing beyond `[build-system] requires`, where each tool is pinned."""
    return []


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: dict[str, Any] | None = None) -> str:
    """Write the static metadata; the source is not needed for it."""
    with _in_folder(locations.ENGINE):
        return skbuild.prepare_metadata_for_build_wheel(metadata_directory, {"wheel.packages": ""})


def build_sdist(sdist_directory: str, config_settings: dict[str, Any] | None = None) -> str:
    """Refuse: the source of this package is the pinned sdist and this folder."""
    raise UnsupportedOperation("there is no sdist of the patched engine; build a wheel from engine/")


def build_wheel(
    wheel_directory: str, config_settings: dict[str, Any] | None = None, metadata_directory: str | None = None
) -> str:
    """Build the patched engine. Everything it prints goes to the build log; trouble is repeated at the end."""
    wheel_directory = str(Path(wheel_directory).resolve())
    with locations.only_one_build(), log.into_file(locations.build_log()):
        try:
            return _build(wheel_directory)
        except pin.EngineBuildError as trouble:
            log.banner(f"stopped: {trouble}")
            raise SystemExit(1) from None


def _build(wheel_directory: str) -> str:
    here = pin.read_pin()
    log.banner(f"fetching {here.base}")
    archive = pin.fetch_sdist(here)
    patches = series.read_patches()
    log.banner(f"preparing the source: overlay and {len(patches)} patches")
    tree = source_tree.prepare(here, archive, patches)
    choice = cuda.decide()
    log.banner(f"CUDA {'on' if choice.enabled else 'off'}: {choice.reason}")
    facts = write_facts(tree.folder / "build-facts.json", here, patches, choice)
    settings = _settings(tree, choice, facts)
    log.banner("compiling")
    with _in_folder(tree.source), _environment(_same_for_every_clone(tree)):
        wheel = skbuild.build_wheel(wheel_directory, settings)
    source_tree.prune(keep=tree)
    log.banner(f"done: {wheel}")
    return wheel


def _settings(tree: source_tree.SourceTree, choice: cuda.CudaChoice, facts: Path) -> dict[str, Any]:
    dev = os.environ.get("KVARN_ENGINE_DEV") == "1"
    kind = ("cuda" if choice.enabled else "cpu") + ("-dev" if dev else "")
    return {f"cmake.define.{name}": value for name, value in cuda.cmake_settings(choice).items()} | {
        "build-dir": str(tree.folder / f"build-{kind}"),
        "cmake.define.KVARN_CUDA": "ON" if choice.enabled else "OFF",
        "cmake.define.KVARN_DEV": "ON" if dev else "OFF",
        "cmake.define.KVARN_PYTHON": sys.executable,
        "cmake.define.KVARN_BUILD_FACTS": str(facts),
        "cmake.define.KVARN_BUILD_INFO_SCRIPT": str(Path(__file__).with_name("build_info.py")),
        "cmake.define.LLAMA_BUILD_COMMIT": pin.read_pin().llama_cpp_commit,
    }


@contextlib.contextmanager
def _in_folder(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _same_for_every_clone(tree: source_tree.SourceTree) -> dict[str, str]:
    """Variables that keep this machine's folders out of what is compiled, so that ccache hits across clones."""
    return {
        # Paths are hashed relative to the tree, whatever its folder is called.
        "CCACHE_BASEDIR": str(tree.folder),
        "CCACHE_NOHASHDIR": "1",
        "CCACHE_SLOPPINESS": "time_macros",
        # Upstream asks git for its commit; a repository the cache happens to lie in must not answer.
        "GIT_CEILING_DIRECTORIES": str(tree.folder.parent),
    }


@contextlib.contextmanager
def _environment(ours: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in ours}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
