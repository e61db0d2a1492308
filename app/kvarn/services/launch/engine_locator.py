"""Finds the engine: the developer's, the user's, or the one installed with Kvarn; reports every place it looked."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

from kvarn.domain.errors import EngineNotFoundError
from kvarn.domain.launch.engine_build import EngineBuild
from kvarn.domain.settings import Settings
from kvarn.services.launch.capability_probe import probe_engine

ENGINE_VARIABLE = "KVARN_ENGINE_DIR"
SERVER_NAME = "llama-server.exe" if sys.platform == "win32" else "llama-server"


def locate_engine(settings: Settings) -> EngineBuild:
    """The engine to use, probed. Raises EngineNotFoundError, or EngineCallError when it does not answer."""
    return probe_engine(find_server(settings))


def find_server(settings: Settings) -> Path:
    """Path of llama-server. A place somebody chose is never silently passed over for the next."""
    chosen = [(f"the variable {ENGINE_VARIABLE}", os.environ.get(ENGINE_VARIABLE, ""))]
    chosen.append(("the settings", settings.engine_dir))
    looked = []
    for source, value in chosen:
        if value:
            place = Path(os.path.abspath(os.path.expanduser(value)))
            return _server_in(place) or _not_found(
                f"{source} names {place}, but there is no {SERVER_NAME} to run there"
            )
        looked.append(f"{source} (not set)")
    installed = _installed_bin()
    found = _server_in(installed) if installed else None
    looked.append(str(installed) if installed else "the installed package llama_cpp (not installed)")
    return found or _not_found("looked in " + ", ".join(looked))


def _server_in(place: Path) -> Path | None:
    """`place` is the program itself, the folder that holds it, or the `llama_cpp` package around that folder."""
    candidates = (place, place / SERVER_NAME, place / "bin" / SERVER_NAME)
    return next((path for path in candidates if path.is_file() and os.access(path, os.X_OK)), None)


def _installed_bin() -> Path | None:
    """`llama_cpp/bin` of this environment. The package is found, not imported: importing loads its libraries."""
    try:
        spec = importlib.util.find_spec("llama_cpp")
    except (ImportError, ValueError):
        return None
    return Path(spec.origin).parent / "bin" if spec and spec.origin else None


def _not_found(detail: str) -> Path:
    cure = f"Run `uv sync` to build ours, or name a folder that holds {SERVER_NAME}"
    raise EngineNotFoundError(f"No engine was found: {detail}. {cure}.")
