"""One scan: walk the sources, read every new header, join the files to models."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

from kvarn.domain.library.header_reading import HeaderReading
from kvarn.domain.library.joining import FoundFile, ReadFile, join_files
from kvarn.domain.library.model_entry import ModelSource
from kvarn.domain.library.one_line import one_line
from kvarn.domain.settings import Settings
from kvarn.services.clock import Clock, SystemClock
from kvarn.services.library.header_cache import HeaderCache
from kvarn.services.library.header_reader import HeaderReader
from kvarn.services.library.listing import FolderReport, Listing
from kvarn.services.library.sources import SourceFolder, files_in, source_folders

_PROGRESS_S = 0.25
"""Time between two reports: joining 2,000 files takes about a tenth of it."""


class Scan:
    """Runs once, in the caller's thread; `cancel` may be called from any other."""

    def __init__(
        self,
        settings: Settings,
        extra: tuple[Path, ...] = (),
        *,
        cache: HeaderCache | None = None,
        clock: Clock | None = None,
        on_progress: Callable[[Listing], None] | None = None,
    ) -> None:
        self._folders = source_folders(settings, extra)
        self._cache = cache or HeaderCache()
        self._clock = clock or SystemClock()
        self._on_progress = on_progress
        self._cancelled = threading.Event()
        self._reader = HeaderReader()
        self._reports: list[FolderReport] = []
        self._files: list[FoundFile] = []
        self._seen: set[tuple[str, str]] = set()
        self._read: list[ReadFile] = []
        self._reported_s = self._clock.now()

    def run(self) -> Listing:
        """The finished listing, or what was found before the scan was cancelled."""
        try:
            self._find_files()
            self._read_headers()
        finally:
            self._reader.close()
            self._cache.save()
        return self._listing(finished=True)

    def cancel(self) -> None:
        """Make `run` return soon, even from a read that hangs."""
        self._cancelled.set()
        self._reader.interrupt()

    def _find_files(self) -> None:
        for folder in self._folders:
            problems: list[str] = []
            before = len(self._files)
            self._find_files_in(folder, problems)
            self._reports.append(_folder_report(folder, len(self._files) - before, problems))

    def _find_files_in(self, folder: SourceFolder, problems: list[str]) -> None:
        def refuse(path: Path, error: OSError) -> None:
            problems.append(f"{one_line(str(path))} cannot be looked into: {error.strerror or 'unknown error'}.")

        for file in files_in(folder, refuse, self._is_cancelled):
            if (identity := _identity(file)) not in self._seen:
                self._seen.add(identity)
                self._files.append(file)
            self._report_progress()

    def _read_headers(self) -> None:
        for file in self._files:
            if self._is_cancelled():
                return
            reading = self._reading_of(file.path)
            if not self._is_cancelled():
                self._read.append(ReadFile(file, reading))
            self._report_progress()

    def _reading_of(self, path: Path) -> HeaderReading:
        try:
            found = os.stat(path)
        except (OSError, ValueError):
            return self._reader.read(path)  # says why
        if kept := self._cache.get(path, found):
            return kept
        reading = self._reader.read(path)
        self._cache.put(path, found, reading)
        return reading

    def _is_cancelled(self) -> bool:
        return self._cancelled.is_set()

    def _report_progress(self) -> None:
        now = self._clock.now()
        if self._on_progress and now - self._reported_s >= _PROGRESS_S:
            self._reported_s = now
            self._on_progress(self._listing(finished=False))

    def _listing(self, *, finished: bool) -> Listing:
        return Listing(
            entries=join_files(self._read),
            folders=tuple(self._reports),
            finished=finished,
            cancelled=self._is_cancelled(),
            files_found=len(self._files),
            files_read=len(self._read),
        )


def _identity(file: FoundFile) -> tuple[str, str]:
    """Two ways to one file count once: overlapping folders, and revisions that share a Hugging Face blob.

    Links of different names in one folder stay apart: their owner sees them apart.
    """
    if file.label:
        return str(file.path), file.label
    if file.source is ModelSource.HUGGING_FACE:
        return os.path.realpath(file.path), file.path.name
    return os.path.realpath(file.path.parent), file.path.name


def _folder_report(folder: SourceFolder, files: int, problems: list[str]) -> FolderReport:
    more = f" ({len(problems) - 1} more)" if len(problems) > 1 else ""
    return FolderReport(
        path=folder.path, source=folder.source, files=files, problem=problems[0] + more if problems else ""
    )


def read_one(path: Path) -> HeaderReading:
    """The header of one file, from the cache when it has not changed."""
    cache = HeaderCache()
    with HeaderReader() as reader:
        try:
            found = os.stat(path)
        except (OSError, ValueError):
            return reader.read(path)
        reading = cache.get(path, found) or reader.read(path)
    cache.put(path, found, reading)
    cache.save()
    return reading
