"""What ends a command that runs for long: Ctrl-C, a polite kill, a closed terminal."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType


@contextlib.contextmanager
def signals_call(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` for each of these signals while the block runs; call from the main thread."""

    def note(number: int, frame: FrameType | None) -> None:
        stop()

    before = {number: signal.signal(number, note) for number in _stop_signals()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop_signals() -> list[signal.Signals]:
    """`nohup` has SIGHUP ignored, and means it. A shell has SIGINT ignored for what it starts in the background, which
    does not mean that somebody who sends it there is to be ignored."""
    known = [signal.Signals[name] for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name)]
    return [s for s in known if s.name != "SIGHUP" or signal.getsignal(s) is not signal.SIG_IGN]
