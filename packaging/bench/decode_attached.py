"""What watching costs the watched: decode speed with the console attached against detached, interleaved in one run.

usage: decode_attached.py [ROUNDS]      needs an engine and a display (or QT_QPA_PLATFORM=offscreen)
Detached: the window is hidden and nobody asks the engine for figures. Attached: the window is shown and its charts
move. Each answer is the engine's own timing of the same greedy prompt. A round asks once attached and twice detached,
the order turning; the ratio of the two detached answers is the floor, what this machine's noise alone makes.
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

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 40
TOKENS = 192
ATTACHED, DETACHED, AGAIN = range(3)


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


def measure_round(console: Console, services: Services, endpoint: str, number: int) -> list[float]:
    """Speeds of one round by state, asked in an order that turns with the round's number."""
    speeds = [0.0, 0.0, 0.0]
    for step in range(3):
        state = (step + number) % 3 if number % 2 else (number - step) % 3
        set_attached(console, services, state == ATTACHED)
        speeds[state] = decode_tok_per_s(endpoint)
    print("round {:2}: attached {:6.1f}, detached {:6.1f} and {:6.1f} tok/s".format(number + 1, *speeds), flush=True)
    return speeds


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
    rounds = [measure_round(console, services, endpoint, number) for number in range(ROUNDS)]
    for name, other in (("attached", ATTACHED), ("detached again", AGAIN)):
        low, median, high = statistics.quantiles([speeds[other] / speeds[DETACHED] for speeds in rounds], n=4)
        print(f"{name} / detached: median {median:.3f}, quartiles {low:.3f} to {high:.3f}, {ROUNDS} rounds")
    console.window.close()
    console.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
