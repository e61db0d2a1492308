"""What one scan has found so far."""

from __future__ import annotations

from pathlib import Path

import msgspec

from kvarn.domain.library.model_entry import ModelEntry, ModelSource


class FolderReport(msgspec.Struct, frozen=True, kw_only=True):
    """One place that was looked in."""

    path: Path
    source: ModelSource
    files: int = 0
    """Model files found below it."""
    problem: str = ""
    """Why it, or a folder below it, could not be looked into; one sentence."""


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """A frozen picture of the library. While a scan repeats, `entries` are still those of the last one."""

    entries: tuple[ModelEntry, ...] = ()
    folders: tuple[FolderReport, ...] = ()
    finished: bool = False
    cancelled: bool = False
    files_found: int = 0
    files_read: int = 0
    """Progress of the present scan: of `files_found` files so far."""

    def entry(self, id: str) -> ModelEntry | None:
        """The model of that id."""
        return next((entry for entry in self.entries if entry.id == id), None)
