"""What a person may set once for the whole product; stored by `services.settings_store` as TOML."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from kvarn.domain.launch.launch_plan import DEFAULT_PORT


class ThemeChoice(StrEnum):
    """Which palette to draw with."""

    SYSTEM = "system"
    LIGHT = "light"
    DARK = "dark"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Defaults are right for a first start that reads nothing."""

    theme: ThemeChoice = ThemeChoice.SYSTEM
    model_folders: tuple[str, ...] = ()
    """Added by the user; other tools' folders are found without being listed."""
    scan_other_tools: bool = True
    engine_dir: str = ""
    """Folder of a llama-server to use instead of ours; empty means ours."""
    port: int = DEFAULT_PORT
    lan: bool = False
    """Listen on all interfaces; needs an API key."""
    gpu_poll_s: float = 1.0
    chart_window_s: int = 60
    last_model: str = ""
    """Id of the model launched last, preselected at the next start."""
