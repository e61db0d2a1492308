"""One OS process in a group of its own: its lines, its end, a polite and a rude way to end it."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable

from kvarn.domain.launch.command_line import EngineCommand
from kvarn.services.launch.line_pump import LinePump

if sys.platform == "win32":
    from kvarn.services.launch import child_windows as platform_child
else:
    from kvarn.services.launch import child_posix as platform_child

# Variables that would change the engine behind the plan's back, or leak our key to its environment.
_NOT_INHERITED = ("LLAMA_ARG_", "LLAMA_API_KEY", "AIP_", "KVARN_API_KEY")


class ChildProcess:
    """A running child. `on_exit` is called once, from a thread of the child's own, after it is reaped."""

    def __init__(
        self,
        command: EngineCommand,
        *,
        on_lines: Callable[[list[str]], None],
        on_exit: Callable[[ChildProcess], None],
    ) -> None:
        """Start it. Raises OSError. Call from a thread that outlives the child (see `child_posix.spawn`)."""
        self._oom_kills_before = platform_child.oom_kills()
        self._process = platform_child.spawn(command.argv, child_environment(command.env))
        assert self._process.stdout is not None
        self.lines = LinePump(self._process.stdout.fileno(), on_lines)
        self.kernel_killed: bool | None = None
        self._on_exit = on_exit
        self._watcher = threading.Thread(target=self._watch, name=f"engine-{self.pid}-exit", daemon=True)
        self._watcher.start()

    @property
    def pid(self) -> int:
        """Process id, also the id of its group."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """Ordinary exit code; None while it runs or when a signal ended it."""
        code = self._process.returncode
        return code if code is not None and self.signal is None else None

    @property
    def signal(self) -> str | None:
        """Name of the signal that ended it."""
        code = self._process.returncode
        return None if code is None else platform_child.signal_name(code)

    @property
    def is_alive(self) -> bool:
        """False once it is reaped."""
        return self._process.returncode is None

    def ask_to_end(self) -> None:
        """Polite; may be ignored."""
        if self.is_alive:
            platform_child.ask_to_end(self._process)

    def end_by_force(self) -> None:
        """Not ignorable; the whole group."""
        if self.is_alive:
            platform_child.end_by_force(self._process)

    def close(self, patience_s: float) -> None:
        """End the threads of a child that is gone; a slow reader of its log gets `patience_s` to catch up."""
        self._watcher.join(patience_s)
        self.lines.close(patience_s)

    def _watch(self) -> None:
        platform_child.await_end(self._process)
        before, after = self._oom_kills_before, platform_child.oom_kills()
        self.kernel_killed = None if before is None or after is None else after > before
        self.lines.await_end_of_output(2.0)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._on_exit(self)


def child_environment(added: dict[str, str]) -> dict[str, str]:
    """Our own environment without what must not reach an engine, plus `added`."""
    return {k: v for k, v in os.environ.items() if not k.startswith(_NOT_INHERITED)} | added
