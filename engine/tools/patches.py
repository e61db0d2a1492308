#!/usr/bin/env python3
"""The patch series: `check` proves it sound, `export` writes it back from the git tree, `list` rewrites HOOKS.md.

Needs only Python and git; the pinned source comes from the build cache or, once, through pip.
Exit codes: 0 sound, 1 a problem was found and printed, 2 wrong use.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "backend"))

from kvarn_engine import pin, series, series_check, work_tree

TREE = Path(__file__).resolve().parents[1] / ".tree"


def check() -> int:
    """Print every broken rule."""
    problems = series_check.problems()
    for problem in problems:
        print(problem)
    if not problems:
        print(f"patch series: {len(series.read_series())} patches, all sound")
    return 1 if problems else 0


def export() -> int:
    """Write patches and overlay back from the git tree made by tools/tree.py."""
    here = pin.read_pin()
    patches = work_tree.export(TREE, here)
    for patch in patches:
        path = series.PATCHES / patch.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(patch.header + patch.diff, encoding="utf-8")
    for name in work_tree.overlay_in(TREE):
        (series.OVERLAY / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(TREE / name, series.OVERLAY / name)
    listed = set(series.read_series())
    for missing in [patch.name for patch in patches if patch.name not in listed]:
        print(f"new: add {missing} to patches/series")
    for gone in sorted(listed - {patch.name for patch in patches}):
        print(f"not in the tree: {gone}; take it out of patches/series and delete it, or rebuild the tree")
    return list_hooks()


def list_hooks() -> int:
    """Rewrite HOOKS.md and print the series."""
    patches = series.read_patches()
    series_check.HOOKS_PAGE.write_text(series_check.hooks_page(patches), encoding="utf-8")
    for patch in patches:
        print(f"{patch.changed_lines:4}  {patch.name}: {patch.subject}")
    return 0


def main() -> int:
    """Run the verb given on the command line."""
    verbs = {"check": check, "export": export, "list": list_hooks}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=verbs)
    try:
        return verbs[parser.parse_args().verb]()
    except pin.EngineBuildError as trouble:
        print(trouble, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
