"""Named sets of launch settings for the chosen model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from kvarn.domain.errors import KvarnError
from kvarn.domain.launch.launch_plan import LaunchSettings
from kvarn.services.atomic_file import write_atomic
from kvarn.services.launch.profile_store import ProfileStore
from kvarn.viewmodels.launch.launch_vm import LaunchVm


class ProfilesVm(QObject):
    """Profiles belong to one model; each keeps its own values."""

    changed = Signal()

    def __init__(self, store: ProfileStore, launch: LaunchVm, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._store = store
        self._launch = launch
        self.problem = ""
        self.profiles: dict[str, LaunchSettings] = {}
        self._model_id = ""
        launch.changed.connect(self._on_launch_changed)
        launch.launched.connect(self._load)
        self._on_launch_changed()

    @property
    def current(self) -> str:
        """The profile that equals the form, or an empty string."""
        return next((name for name, kept in self.profiles.items() if kept == self._launch.settings), "")

    def use(self, name: str) -> None:
        """Put a profile into the form."""
        if name in self.profiles:
            self._launch.use_settings(self.profiles[name])

    def save(self, name: str) -> bool:
        """Keep the form under a name, replacing a profile of that name. False with `problem` set when it cannot be."""
        return self._try(lambda: self._store.save(self._model_id, name.strip(), self._launch.settings))

    def delete(self, name: str) -> bool:
        """Forget a profile."""
        return self._try(lambda: self._store.delete(self._model_id, name))

    def export_to(self, name: str, path: Path) -> bool:
        """Write one profile to a file; it holds no secrets."""
        return self._try(lambda: write_atomic(path, self._store.export_profile(self._model_id, name)))

    def import_from(self, path: Path) -> bool:
        """Take a profile from a file, for the chosen model, and put it into the form."""
        return self._try(lambda: self._import(path))

    def _import(self, path: Path) -> None:
        profile = self._store.import_profile(path.read_bytes())
        self._store.save(self._model_id, profile.name, profile.settings)
        self._launch.use_settings(profile.settings)

    def _try(self, step: Callable[[], object]) -> bool:
        if not self._model_id:
            return False
        self.problem = ""
        try:
            step()
        except KvarnError as error:
            self.problem = str(error)
        except OSError as error:
            self.problem = f"The file cannot be used: {error.strerror or error}."
        self._load()
        return not self.problem

    def _on_launch_changed(self) -> None:
        model = self._launch.draft.model
        if (model.id if model else "") != self._model_id:
            self._model_id = model.id if model else ""
            self._load()

    def _load(self) -> None:
        try:
            self.profiles = dict(self._store.load(self._model_id)) if self._model_id else {}
        except KvarnError as error:
            self.profiles, self.problem = {}, str(error)
        self.changed.emit()
