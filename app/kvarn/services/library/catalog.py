"""The library behind the window: one background thread scans, everyone else gets frozen listings."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec

from kvarn.domain.settings import Settings
from kvarn.services.library.find_model import entry_from_path, find_model
from kvarn.services.library.header_cache import HeaderCache
from kvarn.services.library.listing import FolderReport, Listing
from kvarn.services.library.scan import Scan

__all__ = ["FolderReport", "Listing", "ModelCatalog", "entry_from_path", "find_model", "scan_now"]

_log = logging.getLogger(__name__)


def scan_now(settings: Settings, extra: tuple[Path, ...] = ()) -> Listing:
    """The whole library, in the caller's thread."""
    return Scan(settings, extra).run()


class ModelCatalog:
    """Scans in one background thread of its own; no method waits for it but `close`."""

    def __init__(self, settings: Callable[[], Settings], on_change: Callable[[Listing], None] | None = None) -> None:
        self._settings = settings
        self._callbacks: list[Callable[[Listing], None]] = [on_change] if on_change else []
        self._state = threading.Condition()
        self._listing = Listing()
        self._complete: Listing | None = None
        self._scan: Scan | None = None
        self._wanted = False
        self._closed = False
        self._thread: threading.Thread | None = None

    def start_scan(self) -> None:
        """Scan, or scan again from the start: a scan that is under way is given up, its readings are kept."""
        with self._state:
            if self._closed:
                return
            self._wanted = True
            self._stop_current()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="model-catalog", daemon=True)
                self._thread.start()
            self._state.notify()

    def cancel(self) -> None:
        """Give up the scan; the listing then holds what was found."""
        with self._state:
            self._wanted = False
            self._stop_current()

    def listing(self) -> Listing:
        """The newest listing."""
        return self._listing

    def subscribe(self, callback: Callable[[Listing], None]) -> Callable[[], None]:
        """Call back with every new listing, on the scan thread. Returns the way to end it."""
        self._callbacks.append(callback)

        def unsubscribe() -> None:
            with contextlib.suppress(ValueError):
                self._callbacks.remove(callback)

        return unsubscribe

    def close(self) -> None:
        """End the scan and the thread."""
        with self._state:
            self._closed = True
            self._wanted = False
            self._stop_current()
            self._state.notify()
        if self._thread:
            self._thread.join()

    def _stop_current(self) -> None:
        if self._scan:
            self._scan.cancel()

    def _run(self) -> None:
        cache = HeaderCache()
        while scan := self._next_scan(cache):
            result = self._result_of(scan)
            with self._state:
                self._scan = None
                is_superseded = self._wanted or self._closed
            if not is_superseded:
                self._publish(self._settled(result))

    def _next_scan(self, cache: HeaderCache) -> Scan | None:
        """Wait for a scan to be wanted; None when the catalog is closed."""
        with self._state:
            self._state.wait_for(lambda: self._wanted or self._closed)
            if self._closed:
                return None
            self._wanted = False
            self._scan = Scan(self._settings(), cache=cache, on_progress=self._publish_progress)
            return self._scan

    def _result_of(self, scan: Scan) -> Listing:
        try:
            return scan.run()
        except Exception:
            # Whatever a disk can do, the list that stands must not be lost with this thread.
            _log.exception("scanning the model folders failed")
            return Listing(finished=True, cancelled=True)

    def _settled(self, result: Listing) -> Listing:
        if not result.cancelled:
            self._complete = result
        elif self._complete:
            return msgspec.structs.replace(self._complete, cancelled=True)
        return result

    def _publish_progress(self, partial: Listing) -> None:
        """A first scan fills the list as it goes; a repeated one leaves it standing until it is done."""
        if last := self._complete:
            partial = msgspec.structs.replace(partial, entries=last.entries, folders=last.folders)
        self._publish(partial)

    def _publish(self, listing: Listing) -> None:
        self._listing = listing
        for callback in tuple(self._callbacks):
            try:
                callback(listing)
            except Exception:
                _log.exception("a listener of the model catalog failed")
