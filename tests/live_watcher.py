"""Looks at /live from a thread of its own while a test keeps the engine busy."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx


class Watcher:
    """Every answer and how long it took, in seconds."""

    def __init__(self, url: str, every_s: float) -> None:
        self.answers: list[dict[str, Any]] = []
        self.took_s: list[float] = []
        self._http = httpx.Client(base_url=url, timeout=30.0, trust_env=False)
        self._every_s = every_s
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._ending.is_set():
            begun = time.perf_counter()
            response = self._http.get("/live")
            self.took_s.append(time.perf_counter() - begun)
            self.answers.append(response.raise_for_status().json())
            self._ending.wait(self._every_s)

    def slots(self) -> list[dict[str, Any]]:
        """Slot 0 of every answer, in order."""
        return [answer["slots"][0] for answer in self.answers]

    def phases(self) -> list[str]:
        """The phases of slot 0 in order, each once for as long as it lasted."""
        seen = [slot["phase"] for slot in self.slots()]
        return [phase for before, phase in zip([None, *seen], seen, strict=False) if phase != before]


@contextmanager
def watching(url: str, every_s: float = 0.01) -> Iterator[Watcher]:
    """Look from now until the block ends."""
    watcher = Watcher(url, every_s)
    watcher._thread.start()
    try:
        yield watcher
    finally:
        watcher._ending.set()
        watcher._thread.join()
        watcher._http.close()
