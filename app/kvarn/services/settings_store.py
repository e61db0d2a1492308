"""The settings file: TOML that people may edit. Damage never stops the program and never loses a line.

A file that is no TOML is renamed (`settings.toml.damaged-1`) before anything is written in its place; a
single bad value falls back alone and stays in the file until it is changed. Comments and unknown keys stay.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from pathlib import Path
from typing import Any, get_type_hints
from urllib.parse import quote, unquote_to_bytes

import msgspec
import tomlkit
from tomlkit.exceptions import TOMLKitError

from kvarn.domain.errors import SettingsError
from kvarn.domain.library.one_line import one_line
from kvarn.domain.settings import Settings
from kvarn.services import paths
from kvarn.services.atomic_file import write_atomic

_HEADING = "Settings of Kvarn. Lines that are not here have their defaults."
_URI = "file://"
_MAX_BYTES = 1 << 20


class LoadedSettings(msgspec.Struct, frozen=True):
    """Settings that are always usable, and what had to be done to make them so."""

    settings: Settings
    notices: tuple[str, ...] = ()
    """Sentences for the user, e.g. which damaged copy was set aside."""


class _DamagedError(Exception):
    """The file is no settings file; the message completes “The settings file … ”."""


class SettingsStore:
    """Reads and writes one settings file; any thread may call it."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path or paths.config_dir() / "settings.toml"
        self._lock = threading.Lock()

    def load(self) -> LoadedSettings:
        """The stored settings, with defaults for whatever cannot be used. Never raises."""
        with self._lock:
            try:
                document = self._read()
            except OSError as error:
                reason = error.strerror or "unknown error"
                return LoadedSettings(Settings(), (f"The settings in {self._shown} cannot be read: {reason}.",))
            except _DamagedError as damage:
                return LoadedSettings(Settings(), (self._set_aside_for_load(damage),))
        return _settings_from(document)

    def save(self, settings: Settings) -> None:
        """Write what changed. Raises SettingsError when a value is out of range or the file cannot be written."""
        values = msgspec.to_builtins(settings)
        for name, value in values.items():
            _check(name, value)
        with self._lock:
            try:
                document = self._read_or_set_aside()
                _update(document, values)
                # A linked file (kept among dotfiles, say) is replaced at its real place.
                write_atomic(Path(os.path.realpath(self._path)), tomlkit.dumps(document).encode())
            except OSError as error:
                reason = error.strerror or "unknown error"
                raise SettingsError(f"The settings cannot be saved to {self._shown}: {reason}.") from error

    @property
    def _shown(self) -> str:
        return one_line(str(self._path))

    def _read(self) -> tomlkit.TOMLDocument:
        try:
            found = self._path.stat()
            if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
                raise OSError(errno.EINVAL, "it is not an ordinary file")  # a pipe would be waited for
            if found.st_size > _MAX_BYTES:
                raise _DamagedError("is far too large to be one")
            raw = self._path.read_bytes()
        except FileNotFoundError:
            fresh = tomlkit.document()
            fresh.add(tomlkit.comment(_HEADING))
            return fresh
        if not raw.strip(b"\0\r\n\t "):
            raise _DamagedError("is empty")
        try:
            return tomlkit.parse(raw.decode("utf-8-sig"))
        except (TOMLKitError, UnicodeDecodeError, RecursionError) as error:
            raise _DamagedError("is damaged") from error

    def _read_or_set_aside(self) -> tomlkit.TOMLDocument:
        try:
            return self._read()
        except _DamagedError:
            self._set_aside()
            return self._read()

    def _set_aside_for_load(self, damage: _DamagedError) -> str:
        try:
            kept = self._set_aside()
        except OSError:
            return f"The settings file {self._shown} {damage}; defaults are used. It could not be renamed."
        return f"The settings file {damage}; defaults are used. It was set aside as {one_line(str(kept))}."

    def _set_aside(self) -> Path:
        """Rename the damaged file to the first free name. Raises OSError in a folder that is read-only."""
        number = 1
        while (kept := self._path.with_name(f"{self._path.name}.damaged-{number}")).exists():
            number += 1
        os.rename(self._path, kept)
        return kept


def _settings_from(document: tomlkit.TOMLDocument) -> LoadedSettings:
    """Every usable value; the others keep their defaults and are named."""
    usable: dict[str, Any] = {}
    notices = []
    stored = document.unwrap()
    for name in Settings.__struct_fields__:
        if name in stored:
            try:
                usable[name] = _check(name, _decoded(stored[name]))
            except SettingsError as error:
                notices.append(f"{error} Its default is used.")
    return LoadedSettings(Settings(**usable), tuple(notices))


def _update(document: tomlkit.TOMLDocument, values: dict[str, Any]) -> None:
    """Change only what differs from what the file means, so that a person's own lines stay as they are."""
    meant = msgspec.to_builtins(_settings_from(document).settings)
    for name, value in values.items():
        if meant[name] != value:
            document[name] = _encoded(value)


def _check(name: str, value: Any) -> Any:
    """The value as `Settings` holds it. Raises SettingsError with a sentence."""
    try:
        return msgspec.convert(value, _types()[name])
    except msgspec.ValidationError as error:
        reason = str(error).replace("`", "")
        raise SettingsError(f"The setting {name} = {one_line(str(value), 60)} cannot be used: {reason}.") from error


def _types() -> dict[str, Any]:
    return get_type_hints(Settings, include_extras=True)


def _encoded(value: Any) -> Any:
    """TOML is UTF-8: a path in other bytes is written as a `file://` address, which keeps them."""
    if isinstance(value, (list, tuple)):
        return [_encoded(item) for item in value]
    if isinstance(value, str) and (value.startswith(_URI) or not value.isprintable()):
        return _URI + quote(os.fsencode(value))
    return value


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [_decoded(item) for item in value]
    if isinstance(value, str) and value.startswith(_URI):
        return os.fsdecode(unquote_to_bytes(value.removeprefix(_URI)))
    return value
