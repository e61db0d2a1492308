"""A git repository whose history *is* the series: pristine upstream, one overlay commit, one commit per patch."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from .pin import Pin
from .series import Patch, add_overlay, apply_patch

OVERLAY_SUBJECT = "kvarn: overlay"
_PATCH_LINE = re.compile(r"^Patch: (\S+)$", re.MULTILINE)


def git(tree: Path, *words: str, text_in: str | None = None) -> str:
    """Run git in the tree, untouched by anybody's settings, and return what it printed."""
    quiet = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}
    who = {f"GIT_{role}_{part}": "kvarn" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | quiet | who
    done = subprocess.run(["git", *words], cwd=tree, env=env, input=text_in, check=True,
                          capture_output=True, text=True, encoding="utf-8")  # fmt: skip
    return done.stdout


def make(tree: Path, pin: Pin, patches: list[Patch]) -> None:
    """Turn a pristine tree into the repository: upstream, overlay, one commit per patch."""
    _start(tree, pin)
    add_overlay(tree)
    commit(tree, OVERLAY_SUBJECT)
    for patch in patches:
        apply_patch(tree, patch)
        commit(tree, message_of(patch))


def _start(tree: Path, pin: Pin) -> None:
    git(tree, "init", "--quiet", "--initial-branch=kvarn")
    # Settled in the repository, so that a person's own git commands there behave the same.
    for setting, value in (("core.autocrlf", "false"), ("core.fileMode", "false"), ("gc.auto", "0")):
        git(tree, "config", setting, value)
    commit(tree, f"upstream {pin.version}")
    git(tree, "tag", f"upstream/{pin.version}")


def commit(tree: Path, message: str) -> None:
    """Record everything as it stands. Upstream's ignore rules must not hide upstream's own files."""
    git(tree, "add", "--all", "--force")
    git(tree, "commit", "--quiet", "--allow-empty", "--cleanup=verbatim", "--file=-", text_in=message)


def message_of(patch: Patch) -> str:
    """A patch's header as a commit message; `export` turns it back."""
    subject, _, rest = patch.header.partition("\n")
    return f"{subject.removeprefix('Subject:').strip()}\n\n{rest.rstrip()}\nPatch: {patch.name}\n"


def export(tree: Path, pin: Pin) -> list[Patch]:
    """The series as the tree's commits state it, in order, without ids, dates or index lines."""
    commits = git(tree, "rev-list", "--reverse", f"upstream/{pin.version}..HEAD").split()
    patches = [_patch_of(tree, one) for one in commits]
    return [patch for patch in patches if patch is not None]


def _patch_of(tree: Path, one: str) -> Patch | None:
    message = git(tree, "show", "--no-patch", "--format=%B", one)
    subject, _, rest = message.partition("\n")
    if subject == OVERLAY_SUBJECT:
        return None
    named = _PATCH_LINE.search(rest)
    if not named:
        raise ValueError(f"commit {subject!r} lacks its `Patch: <topic>/<name>.patch` line")
    header = f"Subject: {subject}\n{_PATCH_LINE.sub('', rest).strip()}\n\n"
    diff = git(tree, "diff", "--no-color", "--no-ext-diff", "--no-renames", "--unified=3", f"{one}^", one, "--",
               ".", *_OUR_FILES)  # fmt: skip
    return Patch(named[1], header, re.sub(r"^index [0-9a-f.]+( \d+)?\n", "", diff, flags=re.MULTILINE))


# Overlay files may be edited in any commit; they are exported whole, never as part of a patch.
_OUR_FILES = (":(exclude,glob)**/kvarn-*", ":(exclude,glob)**/test-kvarn-*")


def overlay_in(tree: Path) -> list[str]:
    """Paths of our own files in the tree."""
    listed = git(tree, "ls-files", "--", ":(glob)**/kvarn-*", ":(glob)**/test-kvarn-*")
    return listed.splitlines()
