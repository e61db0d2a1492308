"""Where the engine build keeps things between builds, and the lock that lets one build at a time use them.

cache/
  build.log                  the running or last build: stage banners, then ninja's own [done/total] lines
  build.lock                 held while a build runs
  sdist/                     the pinned source archive, so that a rebuild needs no network
  trees/<hash>/              unpacked + overlay + patches, and its build folders; <hash> names all that went in
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

ENGINE = Path(__file__).resolve().parents[2]


def cache() -> Path:
    """The platform's cache folder for this build; the same rule as platformdirs' `user_cache_dir("kvarn")`."""
    home = Path.home()
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "kvarn" / "Cache"
    elif sys.platform == "darwin":
        base = home / "Library" / "Caches" / "kvarn"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "kvarn"
    return base / "engine"


def build_log() -> Path:
    """The log a progress display may follow while a build runs."""
    return cache() / "build.log"


@contextlib.contextmanager
def only_one_build() -> Iterator[None]:
    """Wait until no other build uses the cache. The operating system drops the lock if the holder dies."""
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / "build.lock").open("a+b") as lock:
        _take(lock.fileno())
        yield


if sys.platform == "win32":
    import msvcrt
    import time

    def _take(handle: int) -> None:
        while True:
            try:
                os.lseek(handle, 0, os.SEEK_SET)
                return msvcrt.locking(handle, msvcrt.LK_LOCK, 1)
            except OSError:  # LK_LOCK itself gives up after ten seconds
                time.sleep(0.2)
else:
    import fcntl

    def _take(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX)
