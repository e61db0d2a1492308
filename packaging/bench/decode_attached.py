"""What watching costs the watched: decode speed with the console attached against detached, interleaved in one run.

usage: decode_attached.py [PAIRS]      needs an engine and a display (or QT_QPA_PLATFORM=offscreen)
Detached: the window is hidden and nobody asks the engine for figures. Attached: the window is shown and its charts
move. Each answer is the engine's own timing of the same greedy prompt; the ratio of a pair is attached / detached, and
pairs alternate in order so that a drift of the machine cancels.
"""

from __future__ import annotations

import statistics
import sys
import threading

import httpx
from PySide6.QtCore import QEventLoop, QTimer
from PySide6.QtWidgets import QApplication

from kvarn.console import Console, Services
from kvarn.domain.launch.engine_status import EnginePhase

PAIRS = int(sys.argv[1]) if len(sys.argv) > 1 else 12
TOKENS = 384


def spin(seconds: float, until=lambda: False) -> None:
    """Let the window live that long, or until something holds."""
    loop, check = QEventLoop(), QTimer()
    QTimer.singleShot(int(seconds * 1000), loop.quit)
    check.timeout.connect(lambda: loop.quit() if until() else None)
    check.start(20)
    loop.exec()


def decode_tok_per_s(endpoint: str) -> float:
    """The engine's own figure for one answer, the window living on meanwhile."""
    answers: list[float] = []

    def ask() -> None:
        body = {"prompt": "Once upon a time", "max_tokens": TOKENS, "temperature": 0, "ignore_eos": True}
        reply = httpx.post(f"{endpoint}/completions", json=body | {"cache_prompt": False}, timeout=300)
        answers.append(reply.json()["timings"]["predicted_per_second"])

    thread = threading.Thread(target=ask)
    thread.start()
    spin(300, lambda: not thread.is_alive())
    thread.join()
    return answers[0]


def set_attached(console: Console, services: Services, attached: bool) -> None:
    """Show the window and look at the engine, or neither."""
    status = services.supervisor.status
    assert status.plan is not None
    assert status.pid is not None
    console.window.setVisible(attached)
    if attached:
        services.link.attach(status.plan.base_url, status.pid)
    else:
        services.link.detach()
    spin(1.0)


def main() -> int:
    """Measure and print median and quartiles of the ratios."""
    app = QApplication(sys.argv[:1])
    services = Services()
    console = Console(app, services)
    console.show()
    spin(60, lambda: console.launch.can_launch)
    console.launch.launch()
    spin(120, lambda: console.engine.status.phase in {EnginePhase.READY, EnginePhase.FAILED})
    endpoint = console.engine.endpoint
    if endpoint is None:
        sys.exit("the engine did not start")
    decode_tok_per_s(endpoint)
    ratios = []
    for pair in range(PAIRS):
        speeds = {}
        for attached in (True, False) if pair % 2 else (False, True):
            set_attached(console, services, attached)
            speeds[attached] = decode_tok_per_s(endpoint)
        ratios.append(speeds[True] / speeds[False])
        print(f"pair {pair + 1:2}: detached {speeds[False]:6.1f}, attached {speeds[True]:6.1f} tok/s", flush=True)
    low, median, high = statistics.quantiles(ratios, n=4)
    print(f"attached / detached: median {median:.3f}, quartiles {low:.3f} to {high:.3f}, {PAIRS} pairs")
    console.window.close()
    console.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
