"""One comparison at a time, and nothing taken from under it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from kvarn.domain.errors import CompareError
from kvarn.services import paths
from kvarn.services.file_lock import try_lock


@contextlib.contextmanager
def alone_in_the_lab(reason: str = "two would measure each other") -> Iterator[None]:
    """Raises CompareError, for this reason, while another process measures; also when the state folder is read-only."""
    folder = paths.state_dir()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = try_lock(folder / "compare.lock")
    except OSError as error:
        raise CompareError(f"The folder {folder} cannot be written: {error.strerror or error}.") from error
    if lock is None:
        raise CompareError(f"Another comparison is being measured; wait for it or stop it: {reason}.")
    with lock:
        yield
