"""One console a user: the second start asks the first to show its window, and leaves."""

from __future__ import annotations

import contextlib
import logging
import secrets
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO

import msgspec

from kvarn.domain.errors import SettingsError
from kvarn.services import paths
from kvarn.services.atomic_file import write_atomic
from kvarn.services.file_lock import try_lock

log = logging.getLogger(__name__)
_ANSWER_S = 2.0


class _Address(msgspec.Struct):
    port: int
    word: str
    """Only someone who can read the 0600 file knows it, so no web page and no other user can raise the window."""


class SingleInstance:
    """A lock the system gives back in any kind of death, and a loopback socket to be called on."""

    def __init__(self, on_raise: Callable[[], None], folder: Path | None = None) -> None:
        """`on_raise` is called on a thread of ours when somebody starts the console again."""
        self._on_raise = on_raise
        self._folder = folder or paths.state_dir()
        self._lock: IO[bytes] | None = None
        self._server: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._word = secrets.token_hex(16)

    def acquire(self) -> bool:
        """True: this is the first. False: another is, and was asked to show its window.

        Raises SettingsError.
        """
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._lock = try_lock(self._folder / "console.lock")
            if self._lock is not None:
                self._listen()
        except OSError as error:
            why = f"The folder {self._folder} cannot be written: {error.strerror or error}."
            raise SettingsError(f"{why} Correct its permissions, or set KVARN_HOME to another folder.") from error
        if self._lock is None:
            self._call_the_first()
        return self._lock is not None

    def close(self) -> None:
        """Let the next one be the first."""
        if self._server:
            with contextlib.suppress(OSError):
                self._server.shutdown(socket.SHUT_RDWR)
            self._server.close()
        if self._thread:
            self._thread.join(_ANSWER_S)
        if self._lock:
            self._address_file.unlink(missing_ok=True)
            self._lock.close()
            self._lock = None

    @property
    def _address_file(self) -> Path:
        return self._folder / "console.json"

    def _listen(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        address = _Address(self._server.getsockname()[1], self._word)
        write_atomic(self._address_file, msgspec.json.encode(address), private=True)
        self._thread = threading.Thread(target=self._answer, args=(self._server,), name="single-instance", daemon=True)
        self._thread.start()

    def _answer(self, server: socket.socket) -> None:
        while True:
            try:
                caller, _ = server.accept()
            except OSError:
                return
            with caller, contextlib.suppress(OSError):
                caller.settimeout(_ANSWER_S)
                if secrets.compare_digest(caller.recv(64), self._word.encode()):
                    self._raise()

    def _raise(self) -> None:
        try:
            self._on_raise()
        except Exception:
            log.exception("showing the window failed")

    def _call_the_first(self) -> None:
        with contextlib.suppress(OSError, msgspec.DecodeError):
            address = msgspec.json.decode(self._address_file.read_bytes(), type=_Address)
            with socket.create_connection(("127.0.0.1", address.port), _ANSWER_S) as call:
                call.sendall(address.word.encode())
