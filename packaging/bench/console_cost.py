"""What the console itself costs: seconds until its window is up, and its CPU share shown idle, shown busy and hidden.

usage: console_cost.py [SECONDS]      needs an engine and a display (or QT_QPA_PLATFORM=offscreen)
CPU time is the console process's own: other work on the machine does not count, nor does the engine, a child.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable

import psutil
from PySide6.QtCore import QEventLoop, QTimer
from PySide6.QtWidgets import QApplication

from kvarn.console import Console, Services
from kvarn.domain.launch.engine_status import EnginePhase

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 20.0


def spin(seconds: float, until: Callable[[], bool] | None = None) -> None:
    """Run the event loop as the console does: asleep unless there is something to do."""
    loop, check = QEventLoop(), QTimer()
    QTimer.singleShot(int(seconds * 1000), loop.quit)
    if until is not None:
        check.timeout.connect(lambda: loop.quit() if until() else None)
        check.start(50)
    loop.exec()


def share(name: str) -> None:
    """Print the CPU share of one core over SECONDS."""
    process, began = psutil.Process(), time.perf_counter()
    before = process.cpu_times()
    spin(SECONDS)
    after, took = process.cpu_times(), time.perf_counter() - began
    used = after.user + after.system - before.user - before.system
    print(f"{name:28} {100 * used / took:5.2f} % of one core, RSS {process.memory_info().rss >> 20} MiB")


def main() -> None:
    """Measure."""
    app = QApplication(sys.argv[:1])
    console = Console(app, Services())
    console.show()
    app.processEvents()
    process = psutil.Process()
    took, cpu = time.time() - process.create_time(), process.cpu_times()
    print(f"{'window up after':28} {took:5.2f} s since the process began, {cpu.user + cpu.system:.2f} s of CPU time")
    spin(60, lambda: console.launch.can_launch)
    share("no engine, charts shown")
    console.launch.launch()
    spin(120, lambda: console.engine.status.phase in {EnginePhase.READY, EnginePhase.FAILED})
    print(f"{'engine':28} {console.engine.status.phase}")
    spin(3)
    share("engine idle, charts shown")
    asked = threading.Thread(target=_ask, args=(console.engine.endpoint,), daemon=True)
    asked.start()
    share("engine busy, charts shown")
    console.window.hide()
    share("engine busy, window hidden")
    asked.join()
    share("engine idle, window hidden")
    console.window.close()
    console.close()


def _ask(endpoint: str | None) -> None:
    import httpx  # not before the window is up: the console does not import it either

    body = {"messages": [{"role": "user", "content": "Count to a thousand."}], "max_tokens": 1500}
    try:
        httpx.post(f"{endpoint}/chat/completions", json=body, timeout=300)
    except httpx.HTTPError as error:
        print(f"the request ended early: {error}")


if __name__ == "__main__":
    main()
