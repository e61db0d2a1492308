"""The build log. Front ends hide a backend's output, so a display of progress follows this file instead.

Lines of ours begin with `kvarn:`; between `kvarn: compiling` and `kvarn: done` ninja writes `[done/total] …` lines.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

_LAST_WORDS = 60


@contextlib.contextmanager
def into_file(path: Path) -> Iterator[None]:
    """Send our and our children's output to `path`; on failure repeat its last lines where output went before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    saved = os.dup(1), os.dup(2)
    with path.open("wb") as stream:
        os.dup2(stream.fileno(), 1)
        os.dup2(stream.fileno(), 2)
    try:
        yield
    except BaseException:
        _restore(saved)
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        print(*lines[-_LAST_WORDS:], f"(the whole log: {path})", sep="\n", file=sys.stderr, flush=True)
        raise
    else:
        _restore(saved)


def _restore(saved: tuple[int, int]) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    for target, copy in enumerate(saved, start=1):
        os.dup2(copy, target)
        os.close(copy)


def banner(text: str) -> None:
    """Say which stage the build is in."""
    print(f"kvarn: {text}", flush=True)
