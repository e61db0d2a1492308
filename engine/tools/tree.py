#!/usr/bin/env python3
"""Make engine/.tree: the pinned llama.cpp as a git repository with the overlay and the series as commits.

Edit there with ordinary git (`commit --fixup`, `rebase --autosquash`), then run `patches.py export`.
An existing tree with work in it is never overwritten: pass --again to throw it away and start over.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "backend"))

from kvarn_engine import pin, series, work_tree

TREE = Path(__file__).resolve().parents[1] / ".tree"


def make(here: pin.Pin) -> None:
    """Unpack, commit as upstream/<version>, then overlay and series on top."""
    _unpack_into(TREE, here)
    work_tree.make(TREE, here, series.read_patches())


def add_upstream(here: pin.Pin) -> None:
    """Commit the (new) pin's pristine source beside the history and tag it `upstream/<version>`."""
    branch = work_tree.git(TREE, "branch", "--show-current").strip()
    work_tree.git(TREE, "checkout", "--quiet", "--orphan", f"pristine-{here.version}")
    work_tree.git(TREE, "rm", "-r", "--quiet", "--force", ".")
    _unpack_into(TREE, here)
    work_tree.commit(TREE, f"upstream {here.version}")
    work_tree.git(TREE, "tag", f"upstream/{here.version}")
    work_tree.git(TREE, "checkout", "--quiet", branch)


def _unpack_into(tree: Path, here: pin.Pin) -> None:
    archive = pin.fetch_sdist(here)
    tree.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=tree.parent) as folder:
        pin.unpack(here, archive, Path(folder))
        for path in (Path(folder) / here.folder / here.llama_cpp).iterdir():
            shutil.move(path, tree / path.name)


def main() -> int:
    """Make the tree, or add the pin's pristine source to the one that is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--again", action="store_true", help="throw the present tree away first")
    parser.add_argument("--add-upstream", action="store_true", help="after editing upstream.toml: add the new source")
    options = parser.parse_args()
    here = pin.read_pin()
    try:
        if options.add_upstream:
            add_upstream(here)
        else:
            if options.again:
                shutil.rmtree(TREE, ignore_errors=True)
            if TREE.exists():
                print(f"{TREE} exists; --again throws it away", file=sys.stderr)
                return 1
            make(here)
    except pin.EngineBuildError as trouble:
        print(trouble, file=sys.stderr)
        return 1
    print(f"{TREE}: upstream/{here.version} and {len(series.read_series())} patches on top")
    return 0


if __name__ == "__main__":
    sys.exit(main())
