"""The newest listing on the window's thread, however fast the scan reports."""

from __future__ import annotations

from PySide6.QtCore import QObject, QTimer, Signal

from kvarn.domain.library.model_entry import ModelEntry
from kvarn.domain.settings import Settings
from kvarn.services.library.catalog import Listing, ModelCatalog
from kvarn.viewmodels.bridge import Bridge
from kvarn.viewmodels.settings_vm import SettingsVm

UPDATE_MS = 200
"""A scan may report every file; a table redrawn more often than this only flickers."""


class LibraryVm(QObject):
    """What the library page and the model picker show."""

    changed = Signal()

    def __init__(self, catalog: ModelCatalog, settings: SettingsVm, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._catalog = catalog
        self._settings = settings
        self.listing: Listing = catalog.listing()
        self.is_scanning = False
        self._timer = QTimer(self, interval=UPDATE_MS, singleShot=True)
        self._timer.timeout.connect(self._refresh)
        self._places = _places(settings.settings)
        settings.changed.connect(self._on_settings)
        self._bridge = Bridge(catalog.subscribe, self)
        self._bridge.received.connect(self._on_listing)

    @property
    def entries(self) -> tuple[ModelEntry, ...]:
        """Every model found so far, the unusable ones too."""
        return self.listing.entries

    @property
    def is_complete(self) -> bool:
        """True when no more models are to come from this scan."""
        return self.listing.finished or self.listing.cancelled

    def entry(self, model_id: str) -> ModelEntry | None:
        """The entry of that id in the newest listing."""
        return next((entry for entry in self.entries if entry.id == model_id), None)

    def rescan(self) -> None:
        """Look at every folder again, in the background."""
        self.is_scanning = True
        self._catalog.start_scan()
        self.changed.emit()

    def cancel(self) -> None:
        """End a running scan; what was found stays."""
        self._catalog.cancel()
        self.is_scanning = False
        self._refresh()

    def add_folder(self, folder: str) -> None:
        """Remember a folder and look into it; one that is known already is looked into again."""
        known = self._places
        self._settings.add_folder(folder)
        if self._places == known:
            self.rescan()

    def close(self) -> None:
        """Hear no more from the scan."""
        self._bridge.close()
        self._timer.stop()

    def _on_settings(self) -> None:
        """Other folders, another list."""
        places = _places(self._settings.settings)
        if places != self._places:
            self._places = places
            self.rescan()

    def _on_listing(self, _listing: Listing) -> None:
        if not self._timer.isActive():
            self._timer.start()

    def _refresh(self) -> None:
        self.listing = self._catalog.listing()
        if self.is_complete:
            self.is_scanning = False
        self.changed.emit()


def _places(settings: Settings) -> tuple[object, ...]:
    return settings.model_folders, settings.scan_other_tools
