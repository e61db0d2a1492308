from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import msgspec

import kvarn
from kvarn.services import paths
from kvarn.services.launch.single_instance import SingleInstance
from patience import HANG_S


def test_the_second_start_is_refused_and_raises_the_first_window() -> None:
    raised = threading.Event()
    first, second = SingleInstance(raised.set), SingleInstance(lambda: None)
    try:
        assert first.acquire() is True
        assert second.acquire() is False
        assert raised.wait(HANG_S)
    finally:
        second.close()
        first.close()


def test_after_the_first_has_closed_another_may_be_first() -> None:
    for _ in range(2):
        instance = SingleInstance(lambda: None)
        assert instance.acquire()
        instance.close()
        instance.close()


def test_an_address_file_left_by_a_crash_does_not_hinder_a_start() -> None:
    paths.state_dir().mkdir(parents=True)
    (paths.state_dir() / "console.json").write_bytes(b"{")
    instance = SingleInstance(lambda: None)
    assert instance.acquire()
    instance.close()


def test_a_stranger_who_does_not_know_the_word_cannot_raise_the_window() -> None:
    import socket

    raised = threading.Event()
    instance = SingleInstance(raised.set)
    try:
        assert instance.acquire()
        content = (paths.state_dir() / "console.json").read_bytes()
        port = msgspec.json.decode(content)["port"]
        with socket.create_connection(("127.0.0.1", port), HANG_S) as call:
            call.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert call.recv(10) == b""
        assert not raised.is_set()
        assert (paths.state_dir() / "console.json").stat().st_mode & 0o777 == 0o600
    finally:
        instance.close()


def test_a_callback_that_fails_does_not_end_the_listening(caplog) -> None:
    calls = threading.Semaphore(0)

    def show() -> None:
        calls.release()
        raise RuntimeError("no window")

    first = SingleInstance(show)
    try:
        assert first.acquire()
        for _ in range(2):
            SingleInstance(lambda: None).acquire()
            assert calls.acquire(timeout=HANG_S)
    finally:
        first.close()
    for record in caplog.records:
        record.expected = True


def test_a_folder_that_cannot_be_written_is_a_sentence_and_never_a_traceback(kvarn_home: Path) -> None:
    kvarn_home.write_text("in the way")
    env = os.environ | {"PYTHONPATH": str(Path(kvarn.__file__).parents[1]), "QT_QPA_PLATFORM": "offscreen"}
    done = subprocess.run([sys.executable, "-m", "kvarn"], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr.startswith(f"kvarn: The folder {kvarn_home / 'state'} cannot be written: ")
    assert "Traceback" not in done.stderr
