"""From an open window to an answer and back, through the real widgets, with the real engine and the starter model."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import httpx
import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication

from kvarn.console import Console, Services
from kvarn.domain.errors import EngineNotFoundError
from kvarn.domain.launch.engine_status import EnginePhase
from kvarn.domain.live import quantities as q
from kvarn.domain.settings import Settings
from kvarn.services.launch.engine_locator import locate_engine
from kvarn.services.launch.port_owner import next_free_port

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]


@pytest.fixture
def console(qapp: QApplication) -> Iterator[Console]:
    try:
        locate_engine(Settings())
    except EngineNotFoundError as missing:
        pytest.skip(str(missing))
    console = Console(qapp, Services())
    console.show()
    yield console
    console.window.close()
    console.close()
    console.window.deleteLater()
    qapp.setStyleSheet("")


def test_launch_chat_watch_and_stop(qtbot, console: Console) -> None:
    panel, phase = console.panel, lambda: console.engine.status.phase
    qtbot.waitUntil(lambda: bool(console.launch.build and console.launch.draft.model), timeout=60_000)
    console.launch.edit(port=next_free_port("127.0.0.1", 41_000), context_tokens=1024)
    qtbot.waitUntil(panel.launch_button.isEnabled, timeout=60_000)
    qtbot.mouseClick(panel.launch_button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: phase() in {EnginePhase.READY, EnginePhase.FAILED}, timeout=120_000)
    assert phase() is EnginePhase.READY, console.engine.diagnostics()
    answers: list[httpx.Response] = []
    asked = threading.Thread(target=lambda: answers.append(_ask(console.engine.endpoint)))
    asked.start()
    decode = console.serve_page.charts.panels[0].plot._items[1]
    qtbot.waitUntil(lambda: len(decode.getData()[1] if decode.getData()[1] is not None else ()) >= 2, timeout=120_000)
    qtbot.waitUntil(lambda: not asked.is_alive(), timeout=120_000)
    asked.join()
    assert answers[0].json()["choices"][0]["message"]["content"]
    assert console.live.graph.snapshot.last_decode_tok_per_s
    qtbot.waitUntil(lambda: len(console.live.graph.frame.memory) >= 2, timeout=60_000)
    assert console._services.telemetry.latest(q.ENGINE_RSS_BYTES)
    qtbot.mouseClick(console.window.header.stop, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: phase() is EnginePhase.STOPPED, timeout=60_000)
    assert console.window.header._lead.text() == "Nothing is served"


def _ask(endpoint: str | None) -> httpx.Response:
    body = {"messages": [{"role": "user", "content": "Say something about mills."}], "max_tokens": 24}
    return httpx.post(f"{endpoint}/chat/completions", json=body, timeout=120, trust_env=False)
