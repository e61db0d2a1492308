"""The endpoint's API key: from the environment, a file or made here; handed to the engine only as a file."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from kvarn.domain.errors import SettingsError
from kvarn.services import paths
from kvarn.services.atomic_file import write_atomic

KEY_VARIABLE = "KVARN_API_KEY"
_MAX_BYTES = 4096


def new_key() -> str:
    """A key nobody can guess, safe in a header and in a file of keys."""
    return "kv-" + secrets.token_urlsafe(24)


def find_key(key_file: Path | None) -> str | None:
    """The key to serve with: the file's first line, else KVARN_API_KEY, else None.

    Raises SettingsError when the file cannot be read or the key cannot be used in a header.
    """
    key = _first_line(key_file) if key_file else os.environ.get(KEY_VARIABLE, "").strip()
    return _usable(key, f"the file {key_file}" if key_file else KEY_VARIABLE) if key or key_file else None


def _first_line(path: Path) -> str:
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_BYTES).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"The API key file {path} cannot be read.", str(error)) from error
    lines = (line.strip() for line in text.splitlines())
    return next((line for line in lines if line and not line.startswith("#")), "")


def _usable(key: str, source: str) -> str:
    # The engine skips lines that begin with a hash and splits nothing else; a header takes visible ASCII.
    if not key or key.startswith("#") or not all("!" <= c <= "~" for c in key):
        raise SettingsError(f"The API key in {source} must be one word of visible ASCII characters.")
    return key


class KeyFile:
    """A private file (mode 0600) that exists while an engine needs it."""

    def __init__(self, key: str) -> None:
        self.path = paths.state_dir() / "engines" / f"key-{secrets.token_hex(8)}"
        write_atomic(self.path, key.encode() + b"\n", private=True)

    def remove(self) -> None:
        """Delete it; the engine reads it once, at its start."""
        self.path.unlink(missing_ok=True)
