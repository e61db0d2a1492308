"""What the window's start must not pay for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import kvarn

LATER = ("httpx", "httpx_sse", "prometheus_client", "pynvml", "typer", "rich", "llama_cpp", "gguf")


def test_the_window_loads_no_library_that_only_a_running_engine_or_a_command_needs() -> None:
    code = f"import sys, kvarn.main; print([name for name in {LATER} if name in sys.modules])"
    env = os.environ | {"PYTHONPATH": str(Path(kvarn.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
