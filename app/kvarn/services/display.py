"""Is there a display to open a window on? Qt would end the process without asking."""

from __future__ import annotations

import socket
import sys
from collections.abc import Mapping
from pathlib import Path

_ANSWER_S = 1.0
_X_PORT = 6000


def display_problem(environ: Mapping[str, str]) -> str:
    """Why no window can be opened, as a sentence; empty when one can, or when Qt was told to draw elsewhere."""
    if sys.platform in {"win32", "darwin"} or environ.get("QT_QPA_PLATFORM", "xcb") not in {"", "xcb", "wayland"}:
        return ""
    if _wayland_answers(environ):
        return ""
    display = environ.get("DISPLAY", "")
    if not display:
        return "There is no display here (neither DISPLAY nor WAYLAND_DISPLAY is set)."
    return "" if _x_answers(display) else f"The display {display} does not answer."


def _wayland_answers(environ: Mapping[str, str]) -> bool:
    name = environ.get("WAYLAND_DISPLAY", "")
    return bool(name) and _connects(socket.AF_UNIX, str(Path(environ.get("XDG_RUNTIME_DIR", "/")) / name))


def _x_answers(display: str) -> bool:
    """`:1`, `:1.0` or `unix:1` is a local server, `host:1` one on the network."""
    host, _, number = display.rpartition(":")
    digits = number.partition(".")[0]
    if not digits.isdecimal():
        return False
    if host and host != "unix" and "/" not in host:
        return _connects(socket.AF_INET, (host, _X_PORT + int(digits)))
    place = f"/tmp/.X11-unix/X{digits}"
    return _connects(socket.AF_UNIX, f"\0{place}") or _connects(socket.AF_UNIX, place)


def _connects(family: socket.AddressFamily, address: str | tuple[str, int]) -> bool:
    with socket.socket(family) as probe:
        probe.settimeout(_ANSWER_S)
        try:
            probe.connect(address)
        except OSError:
            return False
        return True
