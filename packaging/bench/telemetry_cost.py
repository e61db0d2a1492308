"""What watching costs: memory after a million samples, time for each look, for each drawn window, for a log flood.

Run from the repository root: `uv run python packaging/bench/telemetry_cost.py`. Prints figures, judges nothing.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from kvarn.domain.live import quantities as q
from kvarn.domain.live.engine_meter import EngineFrame, EngineMeter
from kvarn.domain.live.exposition import parse_exposition
from kvarn.domain.live.slots import parse_slots
from kvarn.domain.live.snapshot import snapshot
from kvarn.domain.live.thinning import thin
from kvarn.services.live.log_store import LogStore
from kvarn.services.live.machine_probe import MachineProbe
from kvarn.services.live.telemetry_store import TelemetryStore

SAMPLES = 1_000_000
LINES = 200_000
NAMES = [value for key, value in vars(q).items() if key.isupper()]

SLOT = (
    b'{"id":0,"n_ctx":8192,"is_processing":true,"id_task":7,"n_prompt_tokens":700,"n_prompt_tokens_processed":600,'
    b'"n_prompt_tokens_cache":100,"params":{"seed":1,"stop":[],"samplers":["top_k","top_p","min_p","temperature"]},'
    b'"next_token":[{"n_decoded":55}]}'
)
METRICS = "".join(
    f"# HELP llamacpp:{name} text\n# TYPE llamacpp:{name} counter\nllamacpp:{name} 12345.6\n"
    for name in ("prompt_tokens_total", "tokens_predicted_total", *(f"quantity_{number}" for number in range(13)))
)


def rss_mib() -> float:
    """This process, MiB."""
    return psutil.Process().memory_info().rss / (1 << 20)


def microseconds(work: Callable[[], object], times: int = 200) -> float:
    """CPU time of one call."""
    begun = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - begun) / times * 1e6


def filled_store() -> TelemetryStore:
    """A million samples spread over every quantity, four a second."""
    store = TelemetryStore()
    for number in range(SAMPLES // len(NAMES)):
        for name in NAMES:
            store.append(name, number / 4, number % 97)
    return store


def look() -> None:
    """Everything a look does besides waiting for the socket."""
    frame = EngineFrame(
        t_s=time.monotonic(),
        slots=parse_slots(b"[" + b",".join([SLOT] * 4) + b"]"),
        counters=parse_exposition(METRICS),
    )
    METER.read(frame)


METER = EngineMeter()


def flood(store: LogStore) -> float:
    """CPU seconds for a burst of lines."""
    begun = time.process_time()
    for number in range(LINES):
        store.append("engine", f"slot update_slots: id  0 | task {number} | n_past = 1234, a line like the real ones")
    return time.process_time() - begun


def main() -> None:
    """Print one figure a line."""
    before = rss_mib()
    store = filled_store()
    print(f"RSS before {before:.0f} MiB, after {SAMPLES:,} samples in {len(NAMES)} series {rss_mib():.0f} MiB")
    end = SAMPLES / len(NAMES) / 4
    for title, span in (("60 s", 60.0), ("15 min", 900.0), ("run", end)):
        cost = microseconds(lambda span=span: thin(*store.window(NAMES[0], end - span, end), 1600))
        print(f"window of {title}, thinned for 800 pixels: {cost:.0f} µs")
    print(f"snapshot: {microseconds(lambda: snapshot(store, end)):.0f} µs")
    print(f"one look, parsed and metered, four slots: {microseconds(look):.0f} µs")
    probe = MachineProbe()
    print(f"one machine reading: {microseconds(lambda: probe.read(psutil.Process().pid)):.0f} µs")
    with tempfile.TemporaryDirectory() as folder:
        log = LogStore(Path(folder) / "kvarn.log")
        seconds = flood(log)
        log.close()
    print(f"{LINES:,} log lines in a burst: {seconds:.2f} s of CPU; RSS {rss_mib():.0f} MiB")


if __name__ == "__main__":
    main()
