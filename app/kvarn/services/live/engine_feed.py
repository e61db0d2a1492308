"""The seam to the engine's live figures: pushed by an engine that can, else polled over HTTP."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

import msgspec

from kvarn.domain.live.engine_meter import EngineFrame


class TroubleKind(StrEnum):
    """Why a look at the engine brought nothing."""

    UNREACHABLE = "unreachable"
    LOADING = "loading"
    SILENT = "silent"
    WRONG_KEY = "wrong-key"
    UNREADABLE = "unreadable"
    NOT_OFFERED = "not-offered"
    """This way of looking is not there; another may be."""


class FeedTrouble(msgspec.Struct, frozen=True):
    """A look that brought nothing: a kind for programs and a sentence for people."""

    kind: TroubleKind
    message: str
    lasts: bool = False
    """True when this way of looking would meet it again."""


class EngineFeed(Protocol):
    """One engine's live figures. Used by one thread only."""

    @property
    def is_pushed(self) -> bool:
        """True when `next_frame` waits for the engine to send; else it looks at once, and the caller paces it."""

    @property
    def absent(self) -> dict[str, str]:
        """Quantity -> sentence saying why this engine cannot tell it."""

    @property
    def dropped(self) -> int:
        """Broken values and unreadable pages thrown away so far."""

    def pace(self, per_s: int) -> None:
        """So many looks a second from now on, where the engine sends; no meaning where it is asked."""

    def next_frame(self) -> EngineFrame | FeedTrouble:
        """The next look; blocks a few seconds at most and never raises."""

    def close(self) -> None:
        """Let go of the connection."""
