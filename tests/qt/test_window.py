"""The whole window over real services and a stand-in engine: launching, closing, keys, pages."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QWidget

from kvarn.console import Console, Services
from kvarn.domain.launch.engine_status import EnginePhase
from kvarn.domain.settings import ThemeChoice
from kvarn.services.launch.port_owner import next_free_port
from kvarn.views.theme import DARK
from patience import promptly

APP = Path(__file__).parents[2] / "app"


@pytest.fixture
def console(qapp: QApplication, fake_engine_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Console]:
    monkeypatch.setenv("KVARN_ENGINE_DIR", str(fake_engine_dir))
    console = Console(qapp, Services())
    console.show()
    yield console
    console.window.close()
    console.close()
    console.theme.choose(ThemeChoice.SYSTEM)
    console.window.deleteLater()
    qapp.setStyleSheet("")


def ready_to_launch(qtbot, console: Console) -> None:
    qtbot.waitUntil(lambda: bool(console.launch.build and console.launch.draft.model), timeout=60_000)
    console.launch.edit(port=next_free_port("127.0.0.1", 20_000 + os.getpid() % 10_000), context_tokens=512)
    qtbot.waitUntil(lambda: console.launch.can_launch, timeout=60_000)


def in_phase(console: Console, phase: EnginePhase) -> Callable[[], bool]:
    return lambda: console.engine.status.phase is phase


def test_one_key_serves_and_one_key_stops(qtbot, console: Console) -> None:
    ready_to_launch(qtbot, console)
    assert "Kvarn" in console.window.windowTitle()
    qtbot.keyClick(console.window, Qt.Key.Key_L, Qt.KeyboardModifier.ControlModifier)
    qtbot.waitUntil(in_phase(console, EnginePhase.READY), timeout=60_000)
    header = console.window.header
    assert header._lead.text().startswith("Serving SmolLM2")
    assert header.copy_url.text() == console.engine.endpoint
    assert "512 tokens per slot" in header._detail.text()
    header.copy_url.click()
    assert QApplication.clipboard().text() == console.engine.endpoint
    qtbot.keyClick(console.window, Qt.Key.Key_Period, Qt.KeyboardModifier.ControlModifier)
    qtbot.waitUntil(in_phase(console, EnginePhase.STOPPED), timeout=60_000)
    assert not header.stop.isVisible()
    kinds = [mark.kind for mark in console._services.telemetry.marks(0, time.monotonic())]
    assert [kind for kind in kinds if kind != "rebuild"] == ["load", "ready", "stop"]


def test_a_failed_launch_leaves_a_card_with_the_engines_last_words(
    qtbot, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_SAY", "error: <b>no such thing</b>")
    monkeypatch.setenv("FAKE_EXIT", "1")
    ready_to_launch(qtbot, console)
    assert console.launch.launch()
    qtbot.waitUntil(in_phase(console, EnginePhase.FAILED), timeout=60_000)
    assert console.serve_page.error.isVisible()
    assert "<b>no such thing</b>" in console.engine.diagnostics()
    assert console.window.header._dot._state == "bad"


def test_pages_shortcuts_and_theme(qtbot, qapp: QApplication, console: Console) -> None:
    window, control = console.window, Qt.KeyboardModifier.ControlModifier
    for number, key in enumerate((Qt.Key.Key_1, Qt.Key.Key_2, Qt.Key.Key_3, Qt.Key.Key_4)):
        qtbot.keyClick(window, key, control)
        assert window.stack.currentIndex() == number
        assert console.live.graph.is_running == (number == 0)
    qtbot.keyClick(window, Qt.Key.Key_J, control | Qt.KeyboardModifier.ShiftModifier)
    assert window.pages[window.stack.currentIndex()].name == "Logs"
    qtbot.keyClick(window, Qt.Key.Key_Comma, control)
    assert window.pages[window.stack.currentIndex()].name == "Settings"
    assert console.theme.palette.card in qapp.styleSheet()
    console.settings.change(theme=ThemeChoice.DARK)
    assert console.theme.palette is DARK
    assert DARK.card in qapp.styleSheet()


def test_space_pauses_the_charts_unless_a_button_wants_it(qtbot, console: Console) -> None:
    qtbot.keyClick(console.serve_page, Qt.Key.Key_Space)
    assert console.live.graph.is_paused
    button = console.window.rail._group.button(1)
    qtbot.keyClick(button, Qt.Key.Key_Space)
    assert console.window.stack.currentIndex() == 1
    assert console.live.graph.is_paused


def test_minimised_and_hidden_windows_let_the_timers_rest(qtbot, console: Console) -> None:
    assert console.live.graph.is_running
    console.window.showMinimized()
    qtbot.waitUntil(lambda: not console.live.graph.is_running, timeout=60_000)
    console.raise_asked.emit()
    qtbot.waitUntil(lambda: console.live.graph.is_running, timeout=60_000)
    console.window.hide()
    assert not console.live.graph.is_running
    assert not console._services.link.is_watched
    console.window.show()


def test_every_control_of_the_first_page_is_reached_with_tab(qtbot, console: Console) -> None:
    console.window.activateWindow()
    reached: list[QWidget] = []
    for _ in range(80):
        console.window.focusNextChild()
        widget = console.window.focusWidget()
        if widget in reached:
            break
        reached.append(widget)
    wanted = [console.window.rail._group.button(0), console.serve_page.charts._pause]
    assert set(wanted) <= set(reached)
    nameless = [w for w in reached if not (w.accessibleName() or getattr(w, "text", lambda: "")() or w.toolTip())]
    assert not nameless


def test_ctrl_n_leads_to_the_prompt_and_an_answer_by_keys_alone(qtbot, console: Console) -> None:
    ready_to_launch(qtbot, console)
    trial, control = console.serve_page.trial, Qt.KeyboardModifier.ControlModifier
    console.window.show_page_named("Logs")
    qtbot.keyClick(console.window, Qt.Key.Key_N, control)
    assert trial.empty.isVisible()
    qtbot.keyClick(console.window.focusWidget(), Qt.Key.Key_Space)
    qtbot.waitUntil(in_phase(console, EnginePhase.READY), timeout=60_000)
    qtbot.keyClick(console.window, Qt.Key.Key_N, control)
    assert console.window.focusWidget() is trial.prompt
    qtbot.keyClicks(trial.prompt, "Count")
    qtbot.keyClick(trial.prompt, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: console.trial.last_answer.startswith(" 1 2 3"), timeout=60_000)
    console.trial.stop()
    console.trial.context_wanted.emit(7168)
    assert console.launch.settings.context_tokens == 7168


@pytest.mark.parametrize("moment", ["scan", "load", "serve", "answer"])
def test_closing_at_any_moment_ends_with_0_within_3_s_and_nothing_left(
    moment: str, fake_engine_dir: Path, kvarn_home: Path
) -> None:
    script = Path(__file__).with_name("close_at.py")
    port = next_free_port("127.0.0.1", 30_000 + os.getpid() % 10_000)
    env = {
        **os.environ,
        "KVARN_ENGINE_DIR": str(fake_engine_dir),
        "PYTHONPATH": os.pathsep.join([str(APP), os.environ.get("PYTHONPATH", "")]),
        "QT_QPA_PLATFORM": "offscreen",
        **({"FAKE_NEVER_READY": "1"} if moment == "load" else {}),
    }

    def closing_s() -> float:
        command = [sys.executable, "-W", "error", str(script), moment, str(port)]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=100)
        noise = [line for line in done.stderr.splitlines() if "This plugin does not support" not in line]
        assert (done.returncode, noise) == (0, [])
        left = [p for p in psutil.process_iter(["cmdline"]) if str(port) in (p.info["cmdline"] or [])]
        assert not left
        return float(done.stdout.split()[-1])

    promptly(closing_s, 3.0)


def test_without_a_display_the_console_says_so_and_names_serve(kvarn_home: Path) -> None:
    env = {k: v for k, v in os.environ.items() if k not in {"DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"}}
    env["PYTHONPATH"] = os.pathsep.join([str(APP), env.get("PYTHONPATH", "")])
    done = subprocess.run([sys.executable, "-m", "kvarn"], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "no display" in done.stderr
    assert "kvarn serve" in done.stderr
    assert "Traceback" not in done.stderr
