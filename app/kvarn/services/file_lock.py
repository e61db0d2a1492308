"""A lock between processes that the system gives back in any kind of death."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import IO


def try_lock(path: Path) -> IO[bytes] | None:
    """Hold the lock until the file is closed; None when another process has it.

    Raises OSError when the file cannot be written.
    """
    file = path.open("ab")
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        return None
    os.set_inheritable(file.fileno(), False)
    return file
