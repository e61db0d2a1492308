"""Writes the README's pictures from a real run into resources/pictures: serve-light.png, serve-dark.png.

usage: pictures.py      needs the engine; without a display it draws offscreen
The starter model is served with a scratch home and asked a few things; nothing in the pictures is made up.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import threading
import time
from pathlib import Path

SCRATCH = tempfile.TemporaryDirectory(prefix="kvarn-pictures-")
os.environ["KVARN_HOME"] = SCRATCH.name
os.environ.setdefault("QT_SCALE_FACTOR", "2")
if not os.environ.get("DISPLAY"):
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import httpx  # noqa: E402
from PySide6.QtCore import QEventLoop, QTimer  # noqa: E402
from PySide6.QtWidgets import QApplication  # noqa: E402

from kvarn.console import Console, Services  # noqa: E402
from kvarn.domain.launch.engine_status import EnginePhase  # noqa: E402
from kvarn.domain.settings import ThemeChoice  # noqa: E402

PICTURES = Path(__file__).parents[1] / "resources" / "pictures"
INSIDE = 2
"""Number of the tab that shows what the engine tells of itself."""
PROMPTS = (
    "Explain in a few sentences how a water mill grinds grain.",
    "List ten words that begin with the letter K.",
    "Write a short story about a miller who counts tokens instead of sacks.",
    "What is a key-value cache in a language model?",
)


def spin(seconds: float) -> None:
    """Let the window live that long."""
    loop = QEventLoop()
    QTimer.singleShot(int(seconds * 1000), loop.quit)
    loop.exec()


def wait_for(what: str, condition, seconds: float = 120) -> None:
    """Let the window live until something holds."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            sys.exit(f"pictures: {what} did not happen within {seconds:.0f} s")
        spin(0.1)


def ask(endpoint: str, prompt: str, tokens: int) -> None:
    """One chat request, its answer thrown away."""
    body = {"messages": [{"role": "user", "content": prompt}], "max_tokens": tokens}
    # The last answers are cut off when the engine stops.
    with contextlib.suppress(httpx.TransportError):
        httpx.post(f"{endpoint}/chat/completions", json=body, timeout=300).raise_for_status()


def converse(endpoint: str) -> None:
    """One after the other, then two at a time, with pauses as people make them."""
    for number, prompt in enumerate(PROMPTS):
        ask(endpoint, prompt, 60 + 30 * number)
        time.sleep(2.5)
    last = [threading.Thread(target=ask, args=(endpoint, prompt, 300)) for prompt in PROMPTS[2:]]
    for thread in last:
        thread.start()
    for thread in last:
        thread.join()


def take(console: Console, theme: ThemeChoice, name: str) -> None:
    """One picture of the whole window."""
    console.theme.choose(theme)
    spin(0.6)
    PICTURES.mkdir(parents=True, exist_ok=True)
    path = PICTURES / name
    console.window.grab().save(str(path))
    print(f"wrote {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}")


def main() -> None:
    """Serve, talk, draw, stop."""
    app = QApplication(sys.argv[:1])
    console = Console(app, Services())
    console.theme.choose(ThemeChoice.LIGHT)
    console.show()
    wait_for("a launch", lambda: console.launch.can_launch)
    console.launch.edit(kv_k="tcq4_0", kv_v="tcq4_0", slots=2)
    spin(1)
    console.launch.launch()
    wait_for("the engine", lambda: console.engine.status.phase in {EnginePhase.READY, EnginePhase.FAILED})
    talk = threading.Thread(target=converse, args=(console.engine.endpoint or "",), daemon=True)
    talk.start()
    wait_for("the last two answers", lambda: (console.live.graph.snapshot.requests_processing or 0) >= 2, 900)
    spin(2.5)
    take(console, ThemeChoice.LIGHT, "serve-light.png")
    console.serve_page.tabs.setCurrentIndex(INSIDE)
    spin(3.5)
    take(console, ThemeChoice.DARK, "serve-dark.png")
    console.window.close()
    console.close()
    talk.join(10)
    SCRATCH.cleanup()


if __name__ == "__main__":
    main()
