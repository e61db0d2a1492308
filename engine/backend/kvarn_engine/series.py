"""The patch series and the overlay: reading them, and putting them onto a llama.cpp tree with zero fuzz."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from . import locations
from .pin import EngineBuildError

PATCHES = locations.ENGINE / "patches"
OVERLAY = locations.ENGINE / "overlay"

_FIELD = re.compile(r"^([A-Z][A-Za-z-]*):[ \t]*(.*)$")


@dataclass(frozen=True)
class Patch:
    """One file of the series: a header of `Field: text` lines (a blank starts a continuation), then a -p1 diff."""

    name: str
    header: str
    diff: str

    @property
    def fields(self) -> dict[str, str]:
        """Header fields by name, continuation lines joined with blanks."""
        found: dict[str, str] = {}
        last = ""
        for line in self.header.splitlines():
            if match := _FIELD.match(line):
                last = match[1]
                found[last] = match[2].strip()
            elif last and line.startswith((" ", "\t")):
                found[last] = f"{found[last]} {line.strip()}".strip()
        return found

    @property
    def subject(self) -> str:
        """The one line that says what is true once this patch is in."""
        return self.fields.get("Subject", "")

    @property
    def touched(self) -> list[str]:
        """Paths below llama.cpp's root that the diff changes, in the diff's order."""
        return re.findall(r"^diff --git a/(\S+) b/\S+$", self.diff, flags=re.MULTILINE)

    @property
    def changed_lines(self) -> int:
        """Added plus removed lines."""
        return sum(1 for line in self.diff.splitlines() if re.match(r"[+-](?!\+\+ |-- )", line))

    @property
    def sha256(self) -> str:
        """Hash of the whole patch file."""
        return hashlib.sha256((self.header + self.diff).encode()).hexdigest()


def read_series(patches: Path = PATCHES) -> list[str]:
    """Patch names in the order they are applied."""
    lines = (patches / "series").read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]


def read_patch(name: str, patches: Path = PATCHES) -> Patch:
    """One patch, split where its diff begins."""
    text = (patches / name).read_text(encoding="utf-8")
    start = text.find("diff --git ")
    if start < 0:
        raise EngineBuildError(f"{name} holds no `diff --git` line, so it changes nothing.")
    return Patch(name, text[:start], text[start:])


def read_patches() -> list[Patch]:
    """The whole series, in order."""
    return [read_patch(name) for name in read_series()]


def overlay_files(overlay: Path = OVERLAY) -> Iterator[Path]:
    """Our whole new files, as paths below llama.cpp's root, sorted."""
    yield from sorted(path.relative_to(overlay) for path in overlay.rglob("*") if path.is_file())


def add_overlay(tree: Path) -> None:
    """Copy the overlay into a llama.cpp tree. It may add files, never replace one."""
    for path in overlay_files():
        target = tree / path
        if target.exists():
            raise EngineBuildError(f"overlay/{path} would hide upstream's own file of that name: rename ours.")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(OVERLAY / path, target)


def apply_patch(tree: Path, patch: Patch) -> None:
    """Apply one patch to a llama.cpp tree, refusing any context that does not match exactly."""
    done = subprocess.run(_applier(), cwd=tree, input=patch.diff, text=True, capture_output=True, check=False,
                          encoding="utf-8", env=_outside_any_repository(tree))  # fmt: skip
    if done.returncode:
        words = (done.stderr + done.stdout).strip()
        raise EngineBuildError(f"patches/{patch.name} does not apply to the pinned source:\n{words}")


def _applier() -> list[str]:
    if git := shutil.which("git"):
        return [git, "apply", "--whitespace=nowarn", "-"]
    if patch := shutil.which("patch"):
        return [patch, "--strip=1", "--fuzz=0", "--forward", "--batch", "--no-backup-if-mismatch", "--reject-file=-"]
    raise EngineBuildError("Applying our patches needs git (or patch), and neither was found: install git.")


def _outside_any_repository(tree: Path) -> dict[str, str]:
    # Inside somebody's repository (a home folder under git, say) `git apply` skips paths it thinks are elsewhere.
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return env | {"GIT_CEILING_DIRECTORIES": str(tree.resolve().parent), "LC_ALL": "C"}
