"""Runs as `python -I -S child_shim.py CONSOLE_PID PROGRAM …`: ties itself to the console, then becomes PROGRAM.

A program between us and the engine, because `preexec_fn` may deadlock in a process with threads. What is
set here survives `exec`: the parent-death signal, and a readiness to be the kernel's first choice when memory
runs out, so that the console survives its engine. Standard library only, no kvarn import: start-up costs 20 ms.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def tie_to(console_pid: int) -> None:
    """Die with the console's thread that started us. Where the system has no such signal, a watcher does it."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    else:
        watch_parent_pipe()
    # The console may have died before the signal was set.
    if os.getppid() != console_pid:
        os._exit(1)


def watch_parent_pipe() -> None:
    """Fork a watcher that ends this whole process group once the console's end of stdin closes."""
    if os.fork() == 0:
        while os.read(0, 1):
            pass
        os.killpg(0, signal.SIGKILL)


def offer_to_the_oom_killer() -> None:
    """Raise our own badness; lowering it would need privileges, raising never does."""
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("300")
    except OSError:
        pass


def main() -> None:
    """Tie, then become the engine; a program that cannot be run is told on stderr with exit code 127."""
    tie_to(int(sys.argv[1]))
    offer_to_the_oom_killer()
    try:
        os.execv(sys.argv[2], sys.argv[2:])
    except OSError as error:
        sys.stderr.write(f"kvarn: cannot run the engine: {sys.argv[2]}: {error.strerror}\n")
        sys.stderr.flush()
        os._exit(127)


if __name__ == "__main__":
    main()
