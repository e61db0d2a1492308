"""Captures engine/protocol/live.samples anew: the engine idle, in the middle of a prompt, in the middle of an answer.

Run it after the contract or the engine's side of it has changed: `uv run python packaging/live_samples.py`.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "packaging" / "bench"))

from served_engine import ServedEngine, own_programs, served, starter_path  # noqa: E402

SAMPLES = ROOT / "engine" / "protocol" / "live.samples"


def when(engine: ServedEngine, phase: str) -> dict[str, Any]:
    """The first state in which slot 0 is in this phase and has got somewhere in it."""
    while True:
        live = engine.http.get("/live").json()
        slot = live["slots"][0]
        progress = {"prefill": slot["prompt"]["processed"], "decode": slot["decoded"] > 8}.get(phase, True)
        if slot["phase"] == phase and progress:
            return live
        time.sleep(0.002)


def main() -> int:
    """Capture and write."""
    options = ("-c", "4096", "-np", "2", "-t", "2", "-ub", "64", "-fa", "on", "-ctk", "q8_0", "--no-kv-unified")
    with served(own_programs(), starter_path(), *options) as engine:
        engine.answer("Once upon a time", 12, id_slot=0)
        found = {"idle": when(engine, "idle")}
        asking = threading.Thread(target=engine.answer, args=([1000] * 900, 40), kwargs={"id_slot": 0})
        asking.start()
        for phase in ("prefill", "decode"):
            found[phase] = when(engine, phase)
        asking.join()
    SAMPLES.mkdir(exist_ok=True)
    for name, live in found.items():
        live["memory"]["devices"] = [device | {"description": "a processor"} for device in live["memory"]["devices"]]
        (SAMPLES / f"{name}.json").write_text(json.dumps(live, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
