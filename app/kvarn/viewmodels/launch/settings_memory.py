"""Which settings a model comes back with: those of this session's form, of its last launch, or the usual ones."""

from __future__ import annotations

import msgspec

from kvarn.domain.errors import KvarnError
from kvarn.domain.launch.launch_plan import EVERY_INTERFACE, LOOPBACK, LaunchSettings
from kvarn.domain.library.model_entry import ModelEntry, ModelSource
from kvarn.services.launch.profile_store import ProfileStore
from kvarn.viewmodels.library.library_vm import LibraryVm
from kvarn.viewmodels.settings_vm import SettingsVm

LAST_LAUNCH = "last launch"
"""Profile written by every launch, so that a model comes back the way it was used."""


class SettingsMemory:
    """Profiles that cannot be read or saved are reported through the settings; the form goes on without them."""

    def __init__(self, settings: SettingsVm, profiles: ProfileStore) -> None:
        self._settings, self._profiles = settings, profiles
        self._edited: dict[str, LaunchSettings] = {}

    def first_choice(self, library: LibraryVm) -> ModelEntry | None:
        """The model launched last; the starter model when there is none, or it is gone."""
        last = library.entry(self._settings.settings.last_model)
        if last is not None and last.is_servable:
            return last
        if self._settings.settings.last_model and not library.is_complete:
            return None
        usable = [entry for entry in library.entries if entry.is_servable]
        starters = [entry for entry in usable if entry.source is ModelSource.STARTER]
        return next(iter(starters or (usable if library.is_complete else ())), None)

    def recall(self, entry: ModelEntry) -> LaunchSettings:
        """How the model was last edited or launched."""
        return self._edited.get(entry.id) or self._last_launch(entry.id) or self.defaults(entry)

    def keep(self, model_id: str, settings: LaunchSettings) -> None:
        """Note what the form says, until the window closes."""
        self._edited[model_id] = settings

    def launched(self, model_id: str, settings: LaunchSettings) -> None:
        """Note what was launched, for good."""
        self._settings.change(last_model=model_id)
        try:
            self._profiles.save(model_id, LAST_LAUNCH, settings)
        except KvarnError as error:
            self._settings.report(str(error))

    def defaults(self, entry: ModelEntry | None = None) -> LaunchSettings:
        """The usual settings with the user's port and network, and no more context than the model was trained for."""
        stored, trained = self._settings.settings, entry.facts.context_train if entry and entry.facts else None
        usual = LaunchSettings()
        return msgspec.structs.replace(
            usual,
            port=stored.port,
            host=EVERY_INTERFACE if stored.lan else LOOPBACK,
            context_tokens=min(usual.context_tokens, trained or usual.context_tokens),
        )

    def _last_launch(self, model_id: str) -> LaunchSettings | None:
        try:
            return self._profiles.load(model_id).get(LAST_LAUNCH)
        except KvarnError as error:
            self._settings.report(str(error))
            return None
