"""The product's settings while the window is open: this viewmodel is their single writer."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from PySide6.QtCore import QObject, Signal

from kvarn.domain.errors import KvarnError
from kvarn.domain.settings import Settings
from kvarn.services.launch.stored_key import StoredKey
from kvarn.services.settings_store import SettingsStore

OVERRIDES = {"engine_dir": "KVARN_ENGINE_DIR", "api_key": "KVARN_API_KEY"}
"""Environment variables that beat a stored value."""
_DEFAULTS = Settings()


class SettingsVm(QObject):
    """Holds the current `Settings`, stores each change at once, and tells where a value comes from."""

    changed = Signal()
    problem_changed = Signal()

    def __init__(
        self,
        store: SettingsStore,
        keys: StoredKey,
        environ: Mapping[str, str] = os.environ,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._store, self._keys = store, keys
        self._environ = environ
        loaded = store.load()
        self.settings = loaded.settings
        self.notices = loaded.notices
        """What happened while reading, e.g. a damaged copy that was set aside."""
        self.problem = ""
        """Why the last change could not be stored; it holds for this session only."""

    def change(self, **values: Any) -> None:
        """Take the new values at once and store them; a storing problem never undoes the change."""
        wanted = msgspec.structs.replace(self.settings, **values)
        if wanted == self.settings:
            return
        self.settings = wanted
        try:
            self._store.save(wanted)
        except KvarnError as error:
            self._set_problem(str(error))
        else:
            self._set_problem("")
        self.changed.emit()

    def reset(self, field: str) -> None:
        """Back to the default."""
        self.change(**{field: getattr(_DEFAULTS, field)})

    @property
    def key(self) -> str | None:
        """The API key in force, None when there is none or it is unusable."""
        try:
            return self._keys.key()
        except KvarnError:
            return None

    @property
    def key_hint(self) -> str:
        """What the key does for the present choice of network."""
        if self.key:
            return "Clients send it as `Authorization: Bearer …`. A running engine keeps its own."
        if self.settings.lan:
            return "Other computers can only be let in with a key: make one here."
        return "Without a key every program on this computer can use the endpoint."

    def set_key(self, key: str) -> None:
        """Keep a key, or remove it when empty; an unusable one changes nothing and says why."""
        if key.strip() != (self.key or ""):
            self._with_key(lambda: self._keys.store(key.strip()))

    def generate_key(self) -> None:
        """Replace the key by a new one."""
        self._with_key(self._keys.generate)

    def is_default(self, field: str) -> bool:
        """True while nobody changed the value; the key has a row of its own kind."""
        if field not in Settings.__struct_fields__:
            return True
        return bool(getattr(self.settings, field) == getattr(_DEFAULTS, field))

    def overridden_by(self, field: str) -> str:
        """The environment variable that beats this value right now, or an empty string."""
        name = OVERRIDES.get(field, "")
        return name if name and self._environ.get(name) else ""

    def add_folder(self, folder: str) -> None:
        """One more model folder; adding one twice changes nothing."""
        if folder and folder not in self.settings.model_folders:
            self.change(model_folders=(*self.settings.model_folders, folder))

    def remove_folder(self, folder: str) -> None:
        """Forget a model folder; its files are not touched."""
        self.change(model_folders=tuple(f for f in self.settings.model_folders if f != folder))

    def _with_key(self, step: Callable[[], object]) -> None:
        try:
            step()
        except KvarnError as error:
            self._set_problem(str(error))
        else:
            self._set_problem("")
        self.changed.emit()

    def report(self, problem: str) -> None:
        """Show trouble with stored things that is not a setting's own."""
        self._set_problem(problem)

    def _set_problem(self, problem: str) -> None:
        if problem != self.problem:
            self.problem = problem
            self.problem_changed.emit()
