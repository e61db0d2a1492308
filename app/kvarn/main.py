"""The console: builds services, viewmodels and the window; the only file that sees them all."""

from __future__ import annotations


def run() -> int:
    """Open the window and return the exit code of its event loop."""
    raise NotImplementedError
