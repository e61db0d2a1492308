"""The window's own API key: a private file beside the settings, beaten by KVARN_API_KEY."""

from __future__ import annotations

from pathlib import Path

from kvarn.domain.errors import SettingsError
from kvarn.services import paths
from kvarn.services.atomic_file import write_atomic
from kvarn.services.launch.api_key import find_key, new_key


class StoredKey:
    """Kept apart from settings.toml, so that sharing the settings shares no secret."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path or paths.config_dir() / "api-key"

    def key(self) -> str | None:
        """The key a launch uses; None when there is none. Raises SettingsError for an unusable one."""
        return find_key(None) or (find_key(self._path) if self._path.exists() else None)

    def store(self, key: str) -> None:
        """Keep a key; an empty one removes it. Raises SettingsError, and changes nothing, when it cannot be."""
        try:
            if not key:
                self._path.unlink(missing_ok=True)
                return
            if not all("!" <= c <= "~" for c in key) or key.startswith("#"):
                raise SettingsError("The API key must be one word of visible ASCII characters.")
            write_atomic(self._path, key.encode() + b"\n", private=True)
        except OSError as error:
            raise SettingsError(f"The API key cannot be stored in {self._path}.", str(error)) from error

    def generate(self) -> str:
        """Make a new key, keep it, and return it."""
        key = new_key()
        self.store(key)
        return key
