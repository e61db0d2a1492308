"""The best EngineFeed an engine offers: its live stream, else polling. One without a readable stream is asked once."""

from __future__ import annotations

from kvarn.domain.live.engine_meter import EngineFrame
from kvarn.services.clock import Clock
from kvarn.services.live.engine_feed import EngineFeed, FeedTrouble
from kvarn.services.live.polling_feed import PollingFeed
from kvarn.services.live.pushed_feed import PushedFeed


class OfferedFeed:
    """Starts with the stream and falls back for good when its trouble lasts; other trouble is met by another try."""

    def __init__(self, base_url: str, api_key: str | None, clock: Clock) -> None:
        self._where = (base_url, api_key, clock)
        self._pushed = PushedFeed(*self._where)
        self._feed: EngineFeed = self._pushed

    @property
    def is_pushed(self) -> bool:
        """True while the engine sends by itself."""
        return self._feed.is_pushed

    @property
    def absent(self) -> dict[str, str]:
        """Quantity -> sentence saying why this engine cannot tell it."""
        return self._feed.absent

    @property
    def dropped(self) -> int:
        """Broken values and unreadable pages thrown away so far."""
        return self._feed.dropped + (0 if self._feed is self._pushed else self._pushed.dropped)

    def pace(self, per_s: int) -> None:
        """So many looks a second, where the engine sends."""
        self._feed.pace(per_s)

    def next_frame(self) -> EngineFrame | FeedTrouble:
        """The next look; never raises."""
        frame = self._feed.next_frame()
        if isinstance(frame, FeedTrouble) and self._feed is self._pushed and frame.lasts:
            self._feed.close()
            self._feed = PollingFeed(
                *self._where, finished_seq=self._pushed.finished_seq, why_no_live_state=frame.message
            )
            return self._feed.next_frame()
        return frame

    def close(self) -> None:
        """Let go of the connection."""
        self._feed.close()
