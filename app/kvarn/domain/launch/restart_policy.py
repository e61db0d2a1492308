"""Whether a crashed engine is started again: only if it had served, with growing pauses, a few times."""

from __future__ import annotations

import msgspec


class RestartPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """A load that fails is never retried: the same file fails the same way."""

    pauses_s: tuple[float, ...] = (1.0, 5.0, 20.0)
    """One entry for each allowed restart; empty switches restarts off."""
    steady_after_s: float = 600.0
    """An engine that served this long starts with a clean record."""

    def pause_s(self, restarts: int, served_s: float | None) -> float | None:
        """Seconds to wait before restart number `restarts + 1`, None to give up.

        `served_s` is how long the engine was ready, None when it never was.
        """
        if served_s is None:
            return None
        made = 0 if served_s >= self.steady_after_s else restarts
        return self.pauses_s[made] if made < len(self.pauses_s) else None


NO_RESTARTS = RestartPolicy(pauses_s=())
