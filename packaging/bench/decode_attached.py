"""What watching costs the watched: decode speed with the console attached against detached, interleaved in one run.

usage: decode_attached.py [ROUNDS]      needs an engine and a display (or QT_QPA_PLATFORM=offscreen)
Detached: the window is hidden and nobody asks the engine for figures. Attached: the window is shown and its charts
move. Each answer is the engine's own timing of the same greedy prompt. A round asks once attached and twice detached,
the order turning; the ratio of the two detached answers is the floor, what this machine's noise alone makes.
On a noisy machine hundreds of rounds would be needed to see one percent, so the kernel is asked too (Linux): for how
long the engine's threads were ready to run and did not, because another thread had their core. Since they wait for
each other, that share of an answer's time, summed over threads, is the most that watching can have cost it.
"""

from __future__ import annotations

import statistics
import sys
import threading
import time
from pathlib import Path

import httpx
from PySide6.QtCore import QEventLoop, QTimer
from PySide6.QtWidgets import QApplication

from kvarn.console import Console, Services
from kvarn.domain.launch.engine_status import EnginePhase

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 12
TOKENS = 384
SETTLE_S = 3.0
"""A window that has just been shown lays itself out and draws everything once."""
ATTACHED, DETACHED, AGAIN = range(3)


def spin(seconds: float, until=lambda: False) -> None:
    """Let the window live that long, or until something holds."""
    loop, check = QEventLoop(), QTimer()
    QTimer.singleShot(int(seconds * 1000), loop.quit)
    check.timeout.connect(lambda: loop.quit() if until() else None)
    check.start(20)
    loop.exec()


def thread_times_s(pid: int) -> dict[str, tuple[float, float]]:
    """Seconds each thread of the process ran, and waited for a core; empty where the kernel does not tell."""
    texts = {str(file): file.read_text().split() for file in Path(f"/proc/{pid}/task").glob("*/schedstat")}
    return {thread: (int(ran) / 1e9, int(waited) / 1e9) for thread, (ran, waited, _) in texts.items()}


def held_up(before: dict[str, tuple[float, float]], after: dict[str, tuple[float, float]], took_s: float) -> float:
    """Share of the time that threads which compute (ran at least half of it) waited for a core, summed over them."""
    gone = [(ran - before[t][0], waited - before[t][1]) for t, (ran, waited) in after.items() if t in before]
    return sum(waited for ran, waited in gone if ran > took_s / 2) / took_s


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
    spin(SETTLE_S)


def measure_round(console: Console, services: Services, endpoint: str, number: int) -> tuple[list[float], list[float]]:
    """Speeds and shares of time held up of one round, by state, in an order that turns with the round's number."""
    speeds, held = [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]
    pid = services.supervisor.status.pid
    assert pid is not None
    for step in range(3):
        state = (step + number) % 3 if number % 2 else (number - step) % 3
        set_attached(console, services, state == ATTACHED)
        began, before = time.monotonic(), thread_times_s(pid)
        speeds[state] = decode_tok_per_s(endpoint)
        held[state] = held_up(before, thread_times_s(pid), time.monotonic() - began)
    print("round {:2}: attached {:6.1f}, detached {:6.1f} and {:6.1f} tok/s".format(number + 1, *speeds), flush=True)
    return speeds, held


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
        low, median, high = statistics.quantiles([speeds[other] / speeds[DETACHED] for speeds, _ in rounds], n=4)
        print(f"{name} / detached: median {median:.3f}, quartiles {low:.3f} to {high:.3f}, {ROUNDS} rounds")
    for name, state in (("attached", ATTACHED), ("detached", DETACHED)):
        low, median, high = statistics.quantiles([100 * held[state] for _, held in rounds], n=4)
        print(f"held up while {name}: median {median:.2f} %, quartiles {low:.2f} to {high:.2f} % of an answer's time")
    console.window.close()
    console.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
