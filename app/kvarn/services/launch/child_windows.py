"""The Windows seam of `child_process`: a job object that ends the engine with the console.

Not run on the machines this was written on.
"""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence

if sys.platform == "win32":
    from ctypes import wintypes

    _KILL_ON_JOB_CLOSE = 0x2000
    _EXTENDED_LIMITS = 9

    class _BasicLimits(ctypes.Structure):
        _fields_ = [
            ("PerProcessUserTimeLimit", wintypes.LARGE_INTEGER),
            ("PerJobUserTimeLimit", wintypes.LARGE_INTEGER),
            ("LimitFlags", wintypes.DWORD),
            ("MinimumWorkingSetSize", ctypes.c_size_t),
            ("MaximumWorkingSetSize", ctypes.c_size_t),
            ("ActiveProcessLimit", wintypes.DWORD),
            ("Affinity", ctypes.c_size_t),
            ("PriorityClass", wintypes.DWORD),
            ("SchedulingClass", wintypes.DWORD),
        ]

    class _ExtendedLimits(ctypes.Structure):
        _fields_ = [
            ("BasicLimitInformation", _BasicLimits),
            ("IoInfo", ctypes.c_ulonglong * 6),
            ("ProcessMemoryLimit", ctypes.c_size_t),
            ("JobMemoryLimit", ctypes.c_size_t),
            ("PeakProcessMemoryUsed", ctypes.c_size_t),
            ("PeakJobMemoryUsed", ctypes.c_size_t),
        ]

    _kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    _kernel.CreateJobObjectW.restype = wintypes.HANDLE
    _kernel.AssignProcessToJobObject.argtypes = [wintypes.HANDLE, wintypes.HANDLE]
    _kernel.SetInformationJobObject.argtypes = [wintypes.HANDLE, ctypes.c_int, ctypes.c_void_p, wintypes.DWORD]

    def _make_job() -> int:
        # Never closed by us: the system closes it when the console ends in any manner, and that
        # closing is what ends every engine in it.
        job = int(_kernel.CreateJobObjectW(None, None))
        limits = _ExtendedLimits()
        limits.BasicLimitInformation.LimitFlags = _KILL_ON_JOB_CLOSE
        _kernel.SetInformationJobObject(job, _EXTENDED_LIMITS, ctypes.byref(limits), ctypes.sizeof(limits))
        return job

    _JOB = _make_job()

    def spawn(argv: Sequence[str], env: Mapping[str, str]) -> subprocess.Popen[bytes]:
        """Start `argv` in the console's job, in a process group of its own. Raises OSError."""
        flags = subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW
        pipe, merged = subprocess.PIPE, subprocess.STDOUT
        process = subprocess.Popen(
            list(argv), env=dict(env), stdin=pipe, stdout=pipe, stderr=merged, creationflags=flags
        )
        _kernel.AssignProcessToJobObject(_JOB, int(process._handle))  # type: ignore[attr-defined]
        return process

    def ask_to_end(process: subprocess.Popen[bytes]) -> None:
        """Ctrl-Break to its group."""
        try:
            process.send_signal(signal.CTRL_BREAK_EVENT)
        except OSError:
            process.terminate()

    def end_by_force(process: subprocess.Popen[bytes]) -> None:
        """End it and its children."""
        subprocess.run(["taskkill", "/F", "/T", "/PID", str(process.pid)], capture_output=True, check=False)

    def await_end(process: subprocess.Popen[bytes]) -> None:
        """Wait for its end; the job takes care of what it leaves."""
        process.wait()

    def signal_name(return_code: int) -> str | None:
        """Windows has exit codes only."""
        return None

    def oom_kills() -> int | None:
        """Not told by Windows."""
        return None
