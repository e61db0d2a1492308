"""Every location Kvarn reads or writes. `KVARN_HOME` moves them all under one folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import platformdirs

_DIRS = platformdirs.PlatformDirs("kvarn", appauthor=False)


def _under_home(name: str, fallback: Path) -> Path:
    home = os.environ.get("KVARN_HOME")
    return Path(os.path.abspath(os.path.expanduser(home))) / name if home else fallback


def config_dir() -> Path:
    """Settings and profiles: files a person may read and edit."""
    return _under_home("config", _DIRS.user_config_path)


def data_dir() -> Path:
    """Results worth keeping: measured runs, prediction grades."""
    return _under_home("data", _DIRS.user_data_path)


def state_dir() -> Path:
    """Logs, pidfiles and window state."""
    return _under_home("state", _DIRS.user_state_path)


def cache_dir() -> Path:
    """What can be made again: header facts, engine probes."""
    return _under_home("cache", _DIRS.user_cache_path)


def resources_dir() -> Path:
    """Icons and other shipped files: inside the wheel, a frozen bundle, or the repository."""
    package = Path(__file__).resolve().parent.parent
    frozen = getattr(sys, "_MEIPASS", None)
    candidates = [package / "_resources", package.parent.parent / "resources"]
    if frozen:
        candidates.insert(0, Path(frozen) / "kvarn" / "_resources")
    return next((path for path in candidates if path.is_dir()), candidates[-1])
