"""The POSIX seam of `child_process`: own session, polite and rude signals to the whole group."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_SHIM = Path(__file__).with_name("child_shim.py")


def spawn(argv: Sequence[str], env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start `argv` in a session of its own, stdout and stderr in one pipe. Raises OSError.

    The parent-death signal is tied to the calling THREAD: call from one that outlives the child.
    """
    wrapped = [sys.executable, "-I", "-S", str(_SHIM), str(os.getpid()), *argv]
    return subprocess.Popen(
        wrapped,
        env=dict(env),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def ask_to_end(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM to the group."""
    _signal_group(process.pid, signal.SIGTERM)


def end_by_force(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL to the group; also ends what a dead leader left in it."""
    _signal_group(process.pid, signal.SIGKILL)


def _signal_group(group: int, number: signal.Signals) -> None:
    # Already gone; macOS says EPERM for a group of zombies.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def await_end(process: subprocess.Popen[bytes]) -> None:
    """Wait for its end, end what it leaves in its group, then reap it."""
    if hasattr(os, "waitid"):
        # Not reaped yet, so the group id cannot have passed to a stranger when the group is ended.
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        end_by_force(process)
    process.wait()


def signal_name(return_code: int) -> str | None:
    """`SIGKILL` for -9, None for an ordinary exit."""
    if return_code >= 0:
        return None
    try:
        return signal.Signals(-return_code).name
    except ValueError:
        return f"signal {-return_code}"


def oom_kills() -> int | None:
    """How often the kernel's out-of-memory killer has acted since boot; None where it does not tell."""
    try:
        text = Path("/proc/vmstat").read_text()
    except OSError:
        return None
    counts = [line.split()[1] for line in text.splitlines() if line.startswith("oom_kill ")]
    return int(counts[0]) if counts else None
