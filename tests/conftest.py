"""Every test gets its own KVARN_HOME, and leaves nothing behind: no log trouble, thread, child, timer or widget."""

from __future__ import annotations

import gc
import logging
import os
import sys
import threading
import time
from pathlib import Path

import hypothesis
import psutil
import pytest

from patience import HANG_S
from real_models import join_gemma, package_folder, starter_path

# A busy machine is not a defect: a slow example must not fail a property.
slow_is_fine = [hypothesis.HealthCheck.too_slow]
hypothesis.settings.register_profile("kvarn", deadline=None, suppress_health_check=slow_is_fine)
hypothesis.settings.load_profile("kvarn")

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
# A proxy for the web must not stand between a test's client and the engine on this machine.
os.environ["NO_PROXY"] = os.environ["no_proxy"] = ",".join(
    filter(None, (os.environ.get("NO_PROXY") or os.environ.get("no_proxy"), "127.0.0.1", "localhost"))
)

FAKE_ENGINE = Path(__file__).parent / "fakes" / "fake_engine.py"


@pytest.fixture(autouse=True)
def kvarn_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home of our own, away from the developer's settings, caches and models."""
    home = tmp_path_factory.mktemp("kvarn-home")
    monkeypatch.setenv("KVARN_HOME", str(home / "kvarn"))
    monkeypatch.setenv("HOME", str(home))
    for name in ("HF_HOME", "HF_HUB_CACHE", "LLAMA_CACHE", "OLLAMA_MODELS", "XDG_CACHE_HOME", "KVARN_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return home / "kvarn"


@pytest.fixture(autouse=True)
def no_unexpected_logs(caplog: pytest.LogCaptureFixture):
    """A WARNING or worse that the test does not take out of `caplog` itself is a failure."""
    yield
    loud = [r for r in caplog.get_records("call") if r.levelno >= logging.WARNING and not getattr(r, "expected", False)]
    assert not loud, "unexpected log records: " + "; ".join(r.getMessage() for r in loud)


@pytest.fixture(autouse=True)
def nothing_left_behind():
    """Threads, child processes, top-level widgets and running timers must be gone when a test ends."""
    threads = set(threading.enumerate())
    children = {p.pid for p in psutil.Process().children(recursive=True)}
    yield
    _wait_until(lambda: not _new_threads(threads) and not _new_children(children), HANG_S)
    left = [t.name for t in _new_threads(threads)] + [str(p) for p in _new_children(children)] + _left_widgets()
    assert not left, f"left behind: {left}"


def _new_threads(before: set[threading.Thread]) -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t not in before and t.is_alive() and not t.name.startswith("Dummy-")]


def _new_children(before: set[int]) -> list[psutil.Process]:
    return [p for p in psutil.Process().children(recursive=True) if p.pid not in before]


def _left_widgets() -> list[str]:
    widgets = sys.modules.get("PySide6.QtWidgets")
    app = widgets.QApplication.instance() if widgets else None
    if app is None:
        return []
    app.processEvents()
    core = sys.modules["PySide6.QtCore"]
    app.sendPostedEvents(None, core.QEvent.Type.DeferredDelete)
    return [repr(w) for w in app.topLevelWidgets() if w.isVisible()] + _running_timers(core)


def _running_timers(core) -> list[str]:
    """Repeating timers: one of these on a forgotten object keeps a process awake for ever."""
    valid = sys.modules["shiboken6"].isValid
    # By exact type: `isinstance` over everything alive would take half a second after every test.
    kinds = _kinds(core.QTimer)
    timers = [o for o in gc.get_objects() if type(o) in kinds and valid(o)]
    return [f"timer of {t.parent()!r}" for t in timers if t.isActive() and not t.isSingleShot()]


def _kinds(base: type) -> set[type]:
    return {base}.union(*map(_kinds, base.__subclasses__()))


def _wait_until(condition, seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)


@pytest.fixture
def fake_engine_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An engine folder whose `llama-server` is tests/fakes/fake_engine.py (see its FAKE_… switches)."""
    folder = tmp_path_factory.mktemp("engine")
    server = folder / "llama-server"
    server.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{FAKE_ENGINE}" "$@"\n')
    server.chmod(0o755)
    return folder


@pytest.fixture(scope="session")
def engine_dir() -> Path:
    """The engine's programs: KVARN_ENGINE_DIR if set, else beside the installed `llama_cpp` (found, not imported)."""
    if told := os.environ.get("KVARN_ENGINE_DIR"):
        return Path(told)
    try:
        return package_folder("llama_cpp") / "bin"
    except FileNotFoundError:
        pytest.skip("no engine is installed and KVARN_ENGINE_DIR is not set")


@pytest.fixture(scope="session")
def starter_model() -> Path:
    """SmolLM2-135M-Instruct, where its wheel holds it."""
    return starter_path()


@pytest.fixture(scope="session")
def gemma_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Gemma-3-270M, joined once."""
    return join_gemma(tmp_path_factory.mktemp("gemma"))
