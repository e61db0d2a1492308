"""What a person may set once for the whole product; stored by `services.settings_store` as TOML."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec

from kvarn.domain.launch.launch_plan import DEFAULT_PORT


class ThemeChoice(StrEnum):
    """Which palette to draw with."""

    SYSTEM = "system"
    LIGHT = "light"
    DARK = "dark"


PathText = Annotated[str, msgspec.Meta(pattern=r"\A[^\0]*\Z")]
"""No file system takes a NUL."""

Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]
PollSeconds = Annotated[float, msgspec.Meta(ge=0.1, le=60)]
WindowSeconds = Annotated[int, msgspec.Meta(ge=10, le=86400)]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Defaults are right for a first start that reads nothing. The store checks the ranges."""

    theme: ThemeChoice = ThemeChoice.SYSTEM
    model_folders: tuple[PathText, ...] = ()
    """Added by the user; other tools' folders are found without being listed."""
    scan_other_tools: bool = True
    engine_dir: PathText = ""
    """Folder of a llama-server to use instead of ours; empty means ours."""
    port: Port = DEFAULT_PORT
    lan: bool = False
    """Listen on all interfaces; needs an API key."""
    gpu_poll_s: PollSeconds = 1.0
    chart_window_s: WindowSeconds = 60
    last_model: str = ""
    """Id of the model launched last, preselected at the next start."""
