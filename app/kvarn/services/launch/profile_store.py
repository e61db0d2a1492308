"""Launch settings saved under a name, per model; exported and imported as JSON. Secrets are never part of them."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

import msgspec

from kvarn.domain.errors import ProfileError
from kvarn.domain.launch.engine_arguments import SECRET_FLAGS
from kvarn.domain.launch.launch_plan import LaunchSettings
from kvarn.services import paths
from kvarn.services.atomic_file import write_atomic

_LARGEST_IMPORT = 256 * 1024
_LONGEST_NAME = 80
_SECRET_OPTIONS = SECRET_FLAGS | {"--api-key-file", "--ssl-key-file"}


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """One profile as it is exported."""

    name: str
    model_id: str
    settings: LaunchSettings
    kvarn_profile: int = 1
    """Format number; readers refuse newer ones."""


class _ModelProfiles(msgspec.Struct):
    model_id: str
    profiles: dict[str, LaunchSettings] = {}


class ProfileStore:
    """One JSON file a model under `config/profiles`."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or paths.config_dir() / "profiles"

    def load(self, model_id: str) -> dict[str, LaunchSettings]:
        """Profiles by name, oldest first; empty when there are none. Raises ProfileError for a damaged file."""
        path = self._path(model_id)
        try:
            return msgspec.json.decode(path.read_bytes(), type=_ModelProfiles).profiles
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError) as error:
            raise ProfileError(
                f"The profiles in {path} cannot be read; they were left as they are.", str(error)
            ) from error

    def save(self, model_id: str, name: str, settings: LaunchSettings) -> None:
        """Add or replace one. Raises ProfileError."""
        self._write(model_id, self.load(model_id) | {_checked(name): without_secrets(settings)})

    def delete(self, model_id: str, name: str) -> None:
        """Remove one; nothing happens when it does not exist. Raises ProfileError."""
        kept = {other: settings for other, settings in self.load(model_id).items() if other != name}
        self._write(model_id, kept)

    def export_profile(self, model_id: str, name: str) -> bytes:
        """JSON for another machine. Raises ProfileError."""
        settings = self.load(model_id).get(name)
        if settings is None:
            raise ProfileError(f"There is no profile {name!r} for {model_id}.")
        profile = Profile(name=name, model_id=_storable(model_id), settings=without_secrets(settings))
        return msgspec.json.format(msgspec.json.encode(profile), indent=2) + b"\n"

    def import_profile(self, content: bytes) -> Profile:
        """Read an export; it is not saved yet. Raises ProfileError with what is wrong where."""
        if len(content) > _LARGEST_IMPORT:
            raise ProfileError("This file is too large to be a launch profile.")
        try:
            profile = msgspec.json.decode(content, type=Profile)
        except msgspec.DecodeError as error:
            raise ProfileError("This file is not a launch profile.", str(error)) from error
        if profile.kvarn_profile != 1:
            raise ProfileError("This profile was made by a newer Kvarn.")
        _checked(profile.name)
        return msgspec.structs.replace(profile, settings=without_secrets(profile.settings))

    def _write(self, model_id: str, profiles: dict[str, LaunchSettings]) -> None:
        content = msgspec.json.encode(_ModelProfiles(_storable(model_id), profiles))
        try:
            write_atomic(self._path(model_id), msgspec.json.format(content, indent=2) + b"\n")
        except OSError as error:
            raise ProfileError(f"The profile cannot be saved in {self._folder}.", str(error)) from error

    def _path(self, model_id: str) -> Path:
        readable = re.sub(r"[^A-Za-z0-9._-]+", "-", model_id)[:40].strip("-.")
        digest = hashlib.sha256(os.fsencode(model_id)).hexdigest()[:12]
        return self._folder / f"{readable}-{digest}.json"


def without_secrets(settings: LaunchSettings) -> LaunchSettings:
    """The same settings with key options and their values taken out of the extra arguments."""
    kept: list[str] = []
    skip = False
    for word in settings.extra_args:
        option, equals, _ = word.partition("=")
        if skip or option in _SECRET_OPTIONS:
            skip = not skip and not equals
            continue
        kept.append(word)
    return msgspec.structs.replace(settings, extra_args=tuple(kept))


def _checked(name: str) -> str:
    if not name.strip() or len(name) > _LONGEST_NAME or not name.isprintable():
        raise ProfileError(f"A profile's name is 1 to {_LONGEST_NAME} visible characters.")
    return name


def _storable(model_id: str) -> str:
    """JSON has no place for bytes that are not UTF-8; the file's name keeps the identity."""
    return model_id.encode("utf-8", "backslashreplace").decode()
